// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Limits as an object "limits": in rows of the store, in the units of struct guest_limits; and for
 * clients, in those of the API. */
#include "base/json/json.h"
#include "engine/limits.h"

void limits_to_row(const struct guest_limits *limits, struct json_writer *w);
must_check int limits_read_row(const json_t *object, struct guest_limits *ret);
/* of_execs may be NULL. */
void limits_to_json(const struct guest_limits *limits, const struct exec_limits *of_execs,
                    struct json_writer *w);
