// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Signed URLs: their holder may read or write that one path, until they expire. */
#include "base/err.h"

#include <stdbool.h>

struct signature {                        /* as the query has it; borrowed */
	const char *path, *op, *username; /* username: "" = none */
	const char *expiration;           /* unix seconds as text; NULL = never */
	const char *text;                 /* "v1_…" */
};

/* Whether it was made with that token. Its expiration is not checked. */
bool signature_is_by(const struct signature *s, const char *token);
bool signature_has_expired(const struct signature *s, uint64_t now_s);
