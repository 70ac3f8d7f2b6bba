// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * How many entries each source may still cause: a bucket a sandbox, that holds ten seconds' worth
 * and fills with time. What came when it was empty is counted, and told once it is not.
 */
#include "base/id.h"

#include <uthash.h>

struct rate_bucket {
	char id[ID_SIZE], project_id[ID_SIZE];
	uint64_t tokens_milli; /* thousandths of an entry */
	uint64_t filled_us;
	uint64_t suppressed; /* not told yet */
	UT_hash_handle hh;
};
struct rate {
	uint32_t per_second;
	struct rate_bucket *buckets; /* of those that are not full */
};

/* false: it is over its rate, and this one was counted instead. cost: how many it counts for. */
bool rate_take(struct rate *rate, const char *id, const char *project_id, unsigned cost,
               uint64_t now_us);
/* Forgets what is full again; tells what was left out of those that may speak again. */
typedef void (*rate_fn)(const struct rate_bucket *b, void *arg);
void rate_sweep(struct rate *rate, uint64_t now_us, rate_fn tell, void *arg);
/* Its source is gone: tells, and forgets. */
void rate_close(struct rate *rate, const char *id, rate_fn tell, void *arg);
void rate_done(struct rate *rate);
