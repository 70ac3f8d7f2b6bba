// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A libpq connection string, as key and value pairs. A member's has what the setting says, and what
 * libpq would else look for in a home directory, which the member has not.
 */
#include "base/err.h"

#include <stdbool.h>

#define CONNINFO_MAX 48

struct conninfo {
	char *keys[CONNINFO_MAX + 1], *values[CONNINFO_MAX + 1]; /* NULL-terminated */
	size_t n;
};

/* what: the setting or option that the text is of. */
must_check int conninfo_read(struct conninfo *c, const char *what, const char *text,
                             struct err *err);
void conninfo_done(struct conninfo *c);
const char *conninfo_get(const struct conninfo *c, const char *key); /* or NULL */
void conninfo_set(struct conninfo *c, const char *key, const char *value);
/* Sets it where the text has not. */
void conninfo_default(struct conninfo *c, const char *key, const char *value);
/* What a member needs: TCP hosts, TLS that is verified unless the text says otherwise. */
must_check int conninfo_for_member(struct conninfo *c, const char *user, const char *password,
                                   struct err *err);
void conninfo_copy(struct conninfo *to, const struct conninfo *from);
