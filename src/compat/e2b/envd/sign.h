// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Signed URLs: who has one may read or write that one path, until it expires. */
#include "base/err.h"

#include <stdbool.h>

struct signature {                        /* as the query has it; borrowed */
	const char *path, *op, *username; /* username: "" = none */
	const char *expiration;           /* unix seconds as text; NULL = never */
	const char *text;                 /* "v1_…" */
};

/* Is it made with that token? Its expiration is not looked at. */
bool signature_is_by(const struct signature *s, const char *token);
bool signature_has_expired(const struct signature *s, uint64_t now_s);
