// SPDX-License-Identifier: Apache-2.0
#include "event/rate.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

#define BURST_SECONDS 10
#define ENTRY_MILLI   UINT64_C(1000)

static uint64_t burst_milli(const struct rate *rate)
{
	return (uint64_t)rate->per_second * BURST_SECONDS * ENTRY_MILLI;
}

static void fill(const struct rate *rate, struct rate_bucket *b, uint64_t now_us)
{
	uint64_t passed_us = MIN(now_us - b->filled_us, BURST_SECONDS * SECOND_US);
	uint64_t milli = passed_us * rate->per_second / 1000;

	if (milli == 0)
		return; /* or the remainders would be lost */
	b->tokens_milli = MIN(b->tokens_milli + milli, burst_milli(rate));
	b->filled_us = now_us;
}

static struct rate_bucket *find(struct rate *rate, const char *id)
{
	struct rate_bucket *b = NULL;

	HASH_FIND_STR(rate->buckets, id, b);
	return b;
}

static struct rate_bucket *make(struct rate *rate, const char *id, const char *project_id,
                                uint64_t now_us)
{
	struct rate_bucket *b = xnew0(struct rate_bucket);

	(void)snprintf(b->id, sizeof(b->id), "%s", id);
	(void)snprintf(b->project_id, sizeof(b->project_id), "%s", project_id);
	b->tokens_milli = burst_milli(rate);
	b->filled_us = now_us;
	HASH_ADD_STR(rate->buckets, id, b);
	return b;
}

bool rate_take(struct rate *rate, const char *id, const char *project_id, unsigned cost,
               uint64_t now_us)
{
	struct rate_bucket *b = find(rate, id);

	if (!b)
		b = make(rate, id, project_id, now_us);
	fill(rate, b, now_us);
	if (b->suppressed > 0 || b->tokens_milli < cost * ENTRY_MILLI) {
		b->suppressed++;
		return false;
	}
	b->tokens_milli -= cost * ENTRY_MILLI;
	return true;
}

static void drop(struct rate *rate, struct rate_bucket *b)
{
	HASH_DEL(rate->buckets, b);
	free(b);
}

void rate_sweep(struct rate *rate, uint64_t now_us, rate_fn tell, void *arg)
{
	for (struct rate_bucket *b = rate->buckets, *next; b; b = next) {
		next = b->hh.next;
		fill(rate, b, now_us);
		if (b->suppressed > 0 && b->tokens_milli >= ENTRY_MILLI) {
			tell(b, arg);
			b->suppressed = 0;
		} else if (b->suppressed == 0 && b->tokens_milli == burst_milli(rate)) {
			drop(rate, b);
		}
	}
}

void rate_close(struct rate *rate, const char *id, rate_fn tell, void *arg)
{
	struct rate_bucket *b = find(rate, id);

	if (!b)
		return;
	if (b->suppressed > 0)
		tell(b, arg);
	drop(rate, b);
}

void rate_done(struct rate *rate)
{
	while (rate->buckets)
		drop(rate, rate->buckets);
}
