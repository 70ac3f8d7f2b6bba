// SPDX-License-Identifier: Apache-2.0
/*
 * Writing, in batches of one transaction, each for as long as the turn has time. A batch takes the
 * works below in their order. What is in memory changes only when its batch is committed.
 */
#include "base/log.h"
#include "history/history_private.h"

#include <string.h>

#define BATCH_MAX 256 /* works */

void project_change(struct history *h, struct project *p, int64_t bytes, int64_t runs)
{
	p->new_bytes += (uint64_t)bytes;
	p->new_runs += (uint64_t)runs;
	if (list_empty(&p->changed))
		list_append(&h->changed, &p->changed);
}

static int put(struct history *h, const struct history_key *key, const struct buf *data,
               size_t stored, struct err *err)
{
	int64_t row = stored ? 0 : ROW_BYTES;

	project_change(h, history_project(h, key->project_id),
	               row + (int64_t)data->len - (int64_t)stored, 0);
	return store_history_put(h->store, key, data->data, data->len, err);
}

static int write_left(struct history *h, struct err *err)
{
	struct late_piece *l = list_first(&h->left, struct late_piece, link);

	if (!l)
		return 0;
	list_remove(&l->link);
	list_append(&h->wrote_left, &l->link);
	return put(h, &(struct history_key){l->step, l->span, l->project_id, l->owner_id}, &l->data,
	           l->stored, err) < 0
	               ? -EIO
	               : 1;
}

static int write_line(struct history *h, struct series *s, unsigned step, struct err *err)
{
	const struct history_key key = {step, s->lines[step].span, s->project_id, s->owner_id};
	auto_call(buf_done) struct buf data = BUF_INIT(PIECE_BYTES_MAX);

	line_bytes(&s->lines[step], s->scope, &data);
	s->lines[step].writing = data.len;
	return put(h, &key, &data, s->lines[step].stored, err);
}

static int write_series(struct history *h, struct err *err)
{
	struct series *s = list_first(&h->due, struct series, due);
	int r = 0;

	if (!s)
		return 0;
	list_remove(&s->due);
	list_append(&h->wrote, &s->due);
	for (unsigned i = 0; r == 0 && i < STEP_COUNT; i++)
		if (s->lines[i].is_dirty)
			r = write_line(h, s, i, err);
	return r < 0 ? r : 1;
}

/* A line of the present loses what it had with its row. */
static void on_removed(const struct history_key *key, size_t len, void *arg)
{
	struct history *h = arg;
	struct series *s = history_find_series(h, key->owner_id);
	struct line *line = s ? &s->lines[key->step] : NULL;

	project_change(h, history_project(h, key->project_id), -(int64_t)(len + ROW_BYTES), 0);
	if (line && line->is_used && line->span == key->span && s->scope == HISTORY_SANDBOX)
		line_begin(line, s->scope, key->span, NULL, 0);
}

static int remove_retired(struct history *h, struct err *err)
{
	struct span_removal *r = list_first(&h->retired, struct span_removal, link);
	int n;

	if (!r)
		return 0;
	n = store_history_remove(h->store, r->step, r->span, on_removed, h, err);
	if (n < 0)
		return n;
	if (n == 0) {
		list_remove(&r->link);
		free(r);
	}
	return 1;
}

/* The sums of the batch that is open. */
static uint64_t sum(const struct history *h, bool of_runs)
{
	uint64_t all = of_runs ? h->n_runs : h->bytes;

	list_for_each (&h->changed, struct project, p, changed)
		all += of_runs ? p->new_runs - p->runs : p->new_bytes - p->bytes;
	return all;
}

static struct project *find_largest(struct history *h, bool of_runs)
{
	struct project *largest = NULL;

	for (struct project *p = h->projects; p; p = p->hh.next)
		if (!largest ||
		    (of_runs ? p->new_runs > largest->new_runs : p->new_bytes > largest->new_bytes))
			largest = p;
	return largest;
}

/* The step whose next span ended first; STEP_COUNT: there is no further one. */
static unsigned find_oldest(const struct history *h, const size_t next[STEP_COUNT])
{
	uint64_t first_us = UINT64_MAX;
	unsigned first = STEP_COUNT;

	for (unsigned i = 0; i < STEP_COUNT; i++) {
		uint64_t us;

		if (next[i] == h->spans[i].n)
			continue;
		us = (h->spans[i].known[next[i]] + 1) * PIECE_READINGS * history_steps[i].us;
		if (us < first_us) {
			first = i;
			first_us = us;
		}
	}
	return first;
}

/* Removes a project's oldest pieces of sandboxes, of whatever step. */
static int remove_oldest(struct history *h, const struct project *p, struct err *err)
{
	size_t next[STEP_COUNT] = {0};
	int n = 0;

	while (n == 0) {
		unsigned i = find_oldest(h, next);

		if (i == STEP_COUNT)
			return 0;
		n = store_history_remove_of(h->store, i, h->spans[i].known[next[i]++], p->id,
		                            /* with_own= */ false, on_removed, h, err);
	}
	return n;
}

static int shrink(struct history *h, struct err *err)
{
	const struct project *p;

	if (sum(h, false) <= h->config.bytes_max)
		return 0;
	p = find_largest(h, false);
	return p ? remove_oldest(h, p, err) : 0;
}

static int drop_runs(struct history *h, struct err *err)
{
	struct project *p;
	int n;

	if (sum(h, true) <= h->config.runs_max)
		return 0;
	p = find_largest(h, true);
	n = p ? store_history_drop_runs(h->store, p->id, err) : 0;
	if (n > 0)
		project_change(h, p, 0, -n);
	return n;
}

/* Each does a piece of its work: 1 or more, or has none: 0. */
static int (*const works[])(struct history *h, struct err *err) = {
	write_left, write_series, runs_write_some, remove_retired, shrink, drop_runs,
};

static int do_work(struct history *h, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(works); i++)
		r = works[i](h, err);
	return r;
}

static int write_rooms(struct history *h, struct err *err)
{
	int r = 0;

	for (struct list *l = h->changed.next; r == 0 && l != &h->changed; l = l->next) {
		const struct project *p = list_entry(l, struct project, changed);

		r = store_history_put_room(
			h->store, &(struct history_room_row){p->id, p->new_bytes, p->new_runs},
			err);
	}
	return r;
}

/* A project that was over its bound for a moment may be below it again. */
static void settle_projects(struct history *h, bool is_written)
{
	list_for_each (&h->changed, struct project, p, changed) {
		list_remove(&p->changed);
		if (is_written) {
			h->bytes += p->new_bytes - p->bytes;
			h->n_runs += p->new_runs - p->runs;
			p->bytes = p->new_bytes;
			p->runs = p->new_runs;
		} else {
			p->new_bytes = p->bytes;
			p->new_runs = p->runs;
		}
	}
}

static void settle_lines(struct series *s, bool is_written)
{
	for (unsigned i = 0; i < STEP_COUNT; i++) {
		struct line *line = &s->lines[i];

		if (is_written && line->writing) {
			line->stored = line->writing;
			line->is_dirty = false;
		}
		line->writing = 0;
	}
}

static void settle(struct history *h, bool is_written)
{
	settle_projects(h, is_written);
	list_for_each (&h->wrote, struct series, s, due) {
		list_remove(&s->due);
		settle_lines(s, is_written);
		if (s->is_over)
			series_free(h, s);
	}
	list_for_each (&h->wrote_left, struct late_piece, l, link)
		late_piece_free(h, l);
	runs_settle(h, is_written);
}

/* What waits gives way: the disk has no room for it. */
static void let_go(struct history *h)
{
	list_for_each (&h->due, struct series, s, due) {
		list_remove(&s->due);
		if (s->is_over)
			series_free(h, s);
	}
	list_for_each (&h->left, struct late_piece, l, link)
		late_piece_free(h, l);
}

/* Returns 1 if there may be more to do. loop NULL: all there is is done. */
static int write_batch(struct history *h, const struct loop *loop, struct err *err)
{
	int r = store_history_begin(h->store, err), more = 1;

	if (r < 0)
		return r;
	for (unsigned n = 0; more > 0 && n < BATCH_MAX && (n == 0 || !loop || loop_has_time(loop));
	     n++)
		more = do_work(h, err);
	r = more < 0 ? more : write_rooms(h, err);
	r = store_history_end(h->store, r, err);
	settle(h, r == 0);
	return r < 0 ? r : more > 0;
}

static bool has_work(const struct history *h)
{
	return !list_empty(&h->left) || !list_empty(&h->due) || !list_empty(&h->runs_due) ||
	       !list_empty(&h->retired) || h->bytes > h->config.bytes_max ||
	       h->n_runs > h->config.runs_max;
}

static bool has_room(const struct history *h)
{
	return !h->sources.has_room || h->sources.has_room(h->sources.arg);
}

bool history_write_some(struct loop *loop, void *arg)
{
	struct history *h = arg;
	struct err err;
	int r;

	if (!has_work(h))
		return true;
	if (!has_room(h)) {
		let_go(h);
		return true;
	}
	r = write_batch(h, loop, &err);
	if (r < 0) {
		if (!h->has_failed)
			log_error("history.not_written", "error='%s'", err.message);
		let_go(h);
	}
	h->has_failed = r < 0;
	return r <= 0;
}

int history_write(struct history *h, struct err *err)
{
	int r = 1;

	if (!has_work(h) || !has_room(h))
		return 0;
	while (r > 0)
		r = write_batch(h, NULL, err);
	return r;
}

/* One call is a few hundred look-ups; a project is removed when its sandboxes are. */
void history_forget_project(struct history *h, const char *project_id)
{
	struct project *p = history_project(h, project_id);
	struct series *s = history_find_series(h, project_id);
	struct err err;
	int n, r = store_history_begin(h->store, &err);

	if (s)
		series_free(h, s);
	for (unsigned i = 0; r == 0 && i < STEP_COUNT; i++)
		for (size_t k = 0; r == 0 && k < h->spans[i].n; k++) {
			do
				n = store_history_remove_of(h->store, i, h->spans[i].known[k],
				                            project_id, /* with_own= */ true,
				                            on_removed, h, &err);
			while (n > 0);
			r = MIN(n, 0);
		}
	while (r == 0 && (n = store_history_drop_runs(h->store, project_id, &err)) > 0)
		project_change(h, p, 0, -n);
	if (r == 0)
		r = write_rooms(h, &err);
	r = store_history_end(h->store, r, &err);
	settle_projects(h, r == 0);
	if (r < 0)
		log_error("history.not_removed", "project=%s error='%s'", project_id, err.message);
}
