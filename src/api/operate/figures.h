// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What is watched, as one JSON object: for who asks, and again and again for who follows events. */
#include "api/api.h"

/* Puts the fields of the figures of a project into an open object, and has readings that are old
 * made anew. Of a host admin's: also those of all projects together. */
void figures_to_json(const struct api *api, const char *project_id, bool is_host_admin,
                     struct json_writer *w);
void pool_to_json(const struct fleet *fleet, struct json_writer *w); /* as "pool" */
