// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Packages that a new sandbox is to have. A create waits for them by itself; asked for ahead, there
 * is something to see meanwhile. */
#include "base/json/json.h"
#include "cli/remote/remote.h"
#include "cli/term/opts.h"

/* Into the body of a create; language: of the code that is to run, or NULL. */
must_check int packages_to_json(const struct opt_list *packages, const char *language, json_t *body,
                                struct err *err);
/* Returns when what the body of a create asks for is there. */
must_check int packages_prepare(struct remote *remote, const json_t *body, struct err *err);
