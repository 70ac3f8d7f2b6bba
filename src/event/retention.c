// SPDX-License-Identifier: Apache-2.0
#include "event/retention.h"

#include "base/auto.h"
#include "event/entry.h"

#include <string.h>

#define REMOVE_BATCH 512 /* entries a turn */

struct removal {
	struct event_chain_row row; /* as it is to be */
	uint64_t before_us;         /* older ones go */
	uint64_t count, bytes;      /* and all, until the chain has no more than this … */
	uint64_t surplus_count, surplus_bytes; /* … or until so much is gone */
	uint64_t gone_count, gone_bytes;
	uint64_t former_place;
	uint64_t first_us; /* of the first that stays */
	size_t n;          /* looked at */
	bool is_former;
};

static uint64_t above(uint64_t value, uint64_t limit)
{
	return value > limit ? value - limit : 0;
}

bool retention_is_due(const struct chains *chains, const struct event_limits *limits)
{
	return chains->count > limits->count || chains->bytes > limits->bytes;
}

static bool is_surplus(const struct removal *rm)
{
	return (rm->gone_count < rm->surplus_count && rm->row.count > rm->count) ||
	       (rm->gone_bytes < rm->surplus_bytes && rm->row.bytes > rm->bytes);
}

static int remove_one(const struct event_row *row, void *arg)
{
	struct removal *rm = arg;
	auto_call(buf_done) struct buf line =
		BUF_INIT(SIZE_MAX / 2); /* of a row that was altered */
	const enum entry_form form = rm->is_former ? ENTRY_FORMER : ENTRY_PLAIN;

	if (rm->is_former && row->place > rm->former_place)
		return 1;
	rm->first_us = row->at_us;
	if (row->at_us >= rm->before_us && !is_surplus(rm))
		return 1;
	if (entry_put(&line, row, form) < 0)
		return -ENOMEM;
	rm->n++;
	rm->first_us = 0;
	rm->row.bytes = above(rm->row.bytes, line.len);
	rm->row.count = above(rm->row.count, 1);
	rm->gone_bytes += line.len;
	rm->gone_count++;
	rm->row.anchor_seq = row->seq;
	rm->row.anchor_place = row->place;
	memcpy(rm->row.anchor_hash, row->hash, sizeof(row->hash));
	return 0;
}

/* All that the row counts is gone: somebody has removed entries. */
static void settle_counts(struct removal *rm)
{
	if (rm->first_us == 0 && rm->n < REMOVE_BATCH)
		rm->row.count = rm->row.bytes = 0;
}

static int shorten_former(struct chains *chains, struct removal *rm, struct err *err)
{
	struct event_range range = {.n = REMOVE_BATCH};
	int r;

	rm->is_former = true;
	rm->row = chains->former;
	rm->former_place = chains->former.head_seq;
	range.after = rm->row.anchor_seq;
	r = store_events_each(chains->rows, &range, remove_one, rm, err);
	if (r < 0)
		return r;
	settle_counts(rm);
	if (rm->n > 0 || rm->row.count != chains->former.count)
		r = store_events_remove_former(chains->rows, &rm->row, err);
	if (r == 0)
		chains_shorten_former(chains, &rm->row, rm->first_us);
	return r;
}

static int shorten(struct chains *chains, struct chain *c, struct removal *rm, struct err *err)
{
	const struct event_range range = {
		.chain = c->row.project_id, .after = c->row.anchor_seq, .n = REMOVE_BATCH};
	int r;

	rm->row = c->row;
	r = store_events_each(chains->rows, &range, remove_one, rm, err);
	if (r < 0)
		return r;
	settle_counts(rm);
	if (rm->n > 0 || rm->row.count != c->row.count)
		r = store_events_remove(chains->rows, &rm->row, chains->former.head_seq, err);
	if (r == 0)
		chain_shorten(chains, c, &rm->row, rm->first_us);
	return r;
}

/* Entries of the chain that are from before this time are too old. */
static uint64_t before_of(const struct chain *c, const struct event_limits *limits, uint64_t now_us)
{
	return above(now_us, c->age_us > 0 ? c->age_us : limits->age_us);
}

/* One that has entries which are too old, or else the one that has most of what is too much. */
static struct chain *choose(const struct chains *chains, const struct event_limits *limits,
                            uint64_t now_us)
{
	const bool is_count = chains->count > limits->count;
	struct chain *most = NULL;

	for (struct chain *c = chains->all; c; c = c->hh.next) {
		if (c->row.count == 0)
			continue;
		if (c->first_us < before_of(c, limits, now_us))
			return c;
		if (!most ||
		    (is_count ? c->row.count > most->row.count : c->row.bytes > most->row.bytes))
			most = c;
	}
	return retention_is_due(chains, limits) ? most : NULL;
}

int retention_step(struct chains *chains, const struct event_limits *limits, uint64_t now_us,
                   struct err *err)
{
	struct removal rm = {
		.before_us = above(now_us, limits->age_us),
		.surplus_count = above(chains->count, limits->count),
		.surplus_bytes = above(chains->bytes, limits->bytes),
	};
	struct chain *c;
	int r;

	if (chains->former.count > 0 &&
	    (chains->former_first_us < rm.before_us || retention_is_due(chains, limits))) {
		r = shorten_former(chains, &rm, err);
		return r < 0 ? r : 1;
	}
	c = choose(chains, limits, now_us);
	if (!c)
		return 0;
	rm.before_us = before_of(c, limits, now_us);
	rm.count = limits->count / MAX(chains->n_kept, 1U);
	rm.bytes = limits->bytes / MAX(chains->n_kept, 1U);
	r = shorten(chains, c, &rm, err);
	return r < 0 ? r : 1;
}
