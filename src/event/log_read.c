// SPDX-License-Identifier: Apache-2.0
/*
 * Readers are only told that there is more, and read it from the store at their own pace. So a slow
 * reader costs nothing but its position.
 */
#include "event/entry.h"
#include "event/log_private.h"
#include "event/search.h"
#include "event/verify.h"

#include <string.h>

#define READ_BATCH 1024 /* entries looked at in a call: about a millisecond */

struct reading {
	const struct event_filter *filter;
	int (*fn)(const struct event_line *line, void *arg);
	void *arg;
	uint64_t at, former_place;
	size_t n;        /* entries looked at */
	bool is_stopped; /* by fn */
	struct buf line;
};

static bool has_type(uint64_t types, const char *type)
{
	for (unsigned i = 0; i < EVENT_TYPE_COUNT; i++)
		if ((types & BIT64(i)) && strcmp(event_type_name((enum event_type)i), type) == 0)
			return true;
	return types == 0;
}

static bool is_wanted(const struct event_filter *f, const struct event_row *row)
{
	return (f->is_both || event_is_audit(row->type) == f->is_audit) &&
	       (!f->sandbox_id || strcmp(f->sandbox_id, row->sandbox_id) == 0) &&
	       has_type(f->types, row->type) && (!f->search || event_search_finds(f->search, row));
}

static int put_line(struct reading *rd, const struct event_row *row)
{
	int r;

	buf_truncate(&rd->line, 0);
	r = entry_put(&rd->line, row, row->place > rd->former_place ? ENTRY_PLAIN : ENTRY_FORMER);
	return r == 0 && !rd->filter->project_id ? entry_put_place(&rd->line, row->place) : r;
}

static int read_one(const struct event_row *row, void *arg)
{
	struct reading *rd = arg;
	struct event_line line = {.cursor = rd->filter->project_id ? row->seq : row->place,
	                          .at_us = row->at_us,
	                          .type = row->type};
	int r = 0;

	rd->n++;
	if (is_wanted(rd->filter, row)) {
		r = put_line(rd, row);
		if (r < 0)
			return r;
		line.json = rd->line.data;
		line.len = rd->line.len;
		r = rd->fn(&line, rd->arg);
	}
	if (r >= 0)
		rd->at = line.cursor;
	rd->is_stopped = r > 0;
	return r;
}

int event_log_walk(struct event_log *log, struct event_walk *walk, uint64_t most,
                   int (*fn)(const struct event_line *line, void *arg), void *arg, struct err *err)
{
	const struct event_filter *filter = walk->filter;
	struct reading rd = {.filter = filter,
	                     .fn = fn,
	                     .arg = arg,
	                     .at = walk->is_back ? walk->before : walk->after,
	                     .former_place = log->chains.former.head_seq};
	struct event_range range = {.after = walk->after,
	                            .n = (size_t)MIN(most, (uint64_t)READ_BATCH)};
	char name[EVENT_CHAIN_SIZE];
	int r;

	if (filter->project_id) {
		chain_name(name, filter->project_id, /* is_former= */ false, filter->is_audit);
		range.chain = name;
	}
	buf_init(&rd.line, SIZE_MAX / 2); /* entries are short, unless somebody has altered one */
	if (walk->is_back)
		r = store_events_each_back(log->rows, &range, walk->before, read_one, &rd, err);
	else
		r = store_events_each(log->rows, &range, read_one, &rd, err);
	buf_done(&rd.line);
	*(walk->is_back ? &walk->before : &walk->after) = rd.at;
	walk->looked += rd.n;
	return r < 0 ? r : rd.is_stopped || rd.n == range.n;
}

int event_log_read(struct event_log *log, const struct event_filter *filter, uint64_t *after,
                   int (*fn)(const struct event_line *line, void *arg), void *arg, struct err *err)
{
	struct event_walk walk = {.filter = filter, .after = *after};
	int r = event_log_walk(log, &walk, READ_BATCH, fn, arg, err);

	*after = walk.after;
	return r;
}

static void tell_chain(const struct event_chain_row *row, struct event_chain_status *ret)
{
	const size_t id_len = strcspn(row->project_id, "/");

	*ret = (struct event_chain_status){
		.is_audit = row->project_id[id_len] != '\0',
		.is_cut = row->anchor_place > 0,
		.anchor_seq = row->anchor_seq,
		.head_seq = row->head_seq,
		.count = row->count,
	};
	memcpy(ret->project_id, row->project_id, id_len);
	chain_hex(row->anchor_hash, ret->anchor_hash);
	chain_hex(row->head_hash, ret->head_hash);
}

static const struct chain *chain_of(const struct event_log *log, const char *project_id,
                                    bool is_of_audit)
{
	char name[EVENT_CHAIN_SIZE];

	chain_name(name, project_id, /* is_former= */ false, is_of_audit);
	return chains_find(&log->chains, name);
}

void event_log_chain(const struct event_log *log, const char *project_id, bool is_of_audit,
                     struct event_chain_status *ret)
{
	static const struct event_chain_row none;
	const struct chain *c = chain_of(log, project_id, is_of_audit);

	tell_chain(c ? &c->row : &none, ret);
}

void event_log_each_chain(const struct event_log *log,
                          void (*fn)(const struct event_chain_status *status, void *arg), void *arg)
{
	struct event_chain_status status;

	for (const struct chain *c = log->chains.all; c; c = c->hh.next) {
		tell_chain(&c->row, &status);
		fn(&status, arg);
	}
}

bool event_log_former(const struct event_log *log, struct event_chain_status *ret)
{
	tell_chain(&log->chains.former, ret);
	return ret->head_seq > 0;
}

uint64_t event_log_removed(const struct event_log *log, const struct event_filter *filter)
{
	const struct event_chain_row *former = &log->chains.former;
	const struct chain *c;

	if (!filter->project_id)
		return log->chains.removed_place;
	c = chain_of(log, filter->project_id, filter->is_audit);
	if (!c)
		return 0;
	/* A chain that goes on behind the former one begins with that one's end as its anchor. */
	return c->row.anchor_place == 0 && c->row.anchor_seq > 0 ? former->anchor_seq
	                                                         : c->row.anchor_seq;
}
