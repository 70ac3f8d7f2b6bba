// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The figures of the daemon, in groups: each is a piece of work of its own. */
#include "api/api.h"

/* Begins with 0. False: that was the last group. */
bool metrics_put_group(const struct api *api, size_t group, struct metrics *m);
