// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Ports that are opened with their sandbox. */
#include "api/api.h"

/* Opens them and writes "ports": [Port, …] with their tokens; one that cannot be recorded is left
 * out. */
void ports_open(struct json_writer *w, const struct http_req *req, struct sandbox *s,
                const struct port_numbers *numbers);
