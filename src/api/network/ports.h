// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Ports in replies, and those that are opened with their sandbox. */
#include "api/api.h"
#include "sandbox/network/port.h"

/* token NULL: it is not told, and the URLs are without it. */
void port_to_json(struct json_writer *w, const char *name, const struct api *api,
                  const struct sandbox *s, const struct port *port, const char *token);
/* Opens them and writes "ports": [Port, …] with their tokens; one that cannot be recorded is left
 * out. */
void ports_open(struct json_writer *w, const struct http_req *req, struct sandbox *s,
                const struct port_numbers *numbers);
