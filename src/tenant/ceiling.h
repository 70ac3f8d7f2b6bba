// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The most that a single sandbox of a project or key may ask for; the quota bounds their sums. In
 * the API and the store: max_limits, with the entries of the table of limits (engine/limits.h), and
 * max_timeout_ms. For an absent or null value the daemon's own ceiling holds.
 */
#include "base/json/json.h"
#include "engine/limits.h"

/* Indexed as the table of limits; the lifetime comes after them. */
#define CEILING_TIMEOUT_MS LIMITS_COUNT
#define CEILING_COUNT      (LIMITS_COUNT + 1)

struct ceilings {
	uint64_t of[CEILING_COUNT]; /* 0 = none */
};

/* max_limits and max_timeout_ms as clients wrote them; each may be NULL. */
must_check int ceilings_read(const json_t *max_limits, const json_t *max_timeout_ms,
                             struct ceilings *ret, struct err *err);
bool ceilings_is_empty(const struct ceilings *c);
void ceilings_put(const struct ceilings *c, struct json_writer *w);
/* Checks that the wanted values (0 = none) are within. whose is "project" or "key". */
must_check int ceilings_check(const struct ceilings *c, const struct ceilings *asked,
                              const char *whose, struct err *err);
void ceilings_lower(const struct ceilings *c, struct ceilings *values); /* to what c allows */
