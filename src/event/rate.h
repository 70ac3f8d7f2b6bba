// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Limits how many entries each source may cause: one bucket per sandbox, which holds ten seconds'
 * worth and fills with time. Entries that come while it is empty are only counted, and the number
 * is reported once it has filled.
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

/* False if the source is over its rate; the entry is then only counted. cost: how many entries it
 * counts for. */
bool rate_take(struct rate *rate, const char *id, const char *project_id, unsigned cost,
               uint64_t now_us);
/* Forgets full buckets, and reports what was left out for those that are no longer empty. */
typedef void (*rate_fn)(const struct rate_bucket *b, void *arg);
void rate_sweep(struct rate *rate, uint64_t now_us, rate_fn tell, void *arg);
/* The source is gone: reports what was left out, and forgets it. */
void rate_close(struct rate *rate, const char *id, rate_fn tell, void *arg);
void rate_done(struct rate *rate);
