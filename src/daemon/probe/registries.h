// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The registries that the host's own npm and pip are configured to use, so that templates are built
 * from the operator's choice: by the variables that these programs read, else by their files for
 * the machine and for root. If nothing is configured, a build asks the programs (the step
 * `registries`). A URL with a user or password in it is not used, since builds run other people's
 * code.
 */
#include "daemon/config/config.h"

struct host_registries {
	char *npm, *pip; /* URLs; or NULL */
	struct origin npm_origin, pip_origin;
};

void registries_read(struct host_registries *r);
void registries_done(struct host_registries *r);
/* The value of the last line "KEY = VALUE" of a file's text, for free(); or NULL. */
char *registries_find(const char *text, const char *key);
