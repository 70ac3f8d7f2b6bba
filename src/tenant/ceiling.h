// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The most that a single sandbox of a project or key may ask for, beside the quota's sums. On the
 * wire and in the store: max_limits, which has each of the table of limits (engine/limits.h), and
 * max_timeout_ms; what is absent or null has the daemon's own ceiling.
 */
#include "base/json/json.h"
#include "engine/limits.h"

/* By the place in the table of limits, and behind them the lifetime. */
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
/* Is what is asked for (0 = nothing) within? whose is "project" or "key". */
must_check int ceilings_check(const struct ceilings *c, const struct ceilings *asked,
                              const char *whose, struct err *err);
void ceilings_lower(const struct ceilings *c, struct ceilings *values); /* to what is within */
