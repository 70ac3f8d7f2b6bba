// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The most that a single sandbox of a project or key may ask for, beside the quota's sums. On the
 * wire and in the store: max_limits {vcpus, memory_mib, disk_mib, inodes, pids, open_files,
 * output_mib, execs} and max_timeout_ms; what is absent or null has the daemon's own ceiling.
 */
#include "base/json/json.h"

enum ceiling {
	CEILING_CPU_MILLI,
	CEILING_MEMORY_BYTES,
	CEILING_DISK_BYTES,
	CEILING_INODES,
	CEILING_PIDS,
	CEILING_OPEN_FILES,
	CEILING_OUTPUT_BYTES,
	CEILING_EXECS,
	CEILING_LIMIT_COUNT, /* those above are in max_limits */
	CEILING_TIMEOUT_MS = CEILING_LIMIT_COUNT,
	CEILING_COUNT
};

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
