// SPDX-License-Identifier: Apache-2.0
/* Reading: pieces of the store, and the lines in memory, which know more of the present spans. */
#include "history/history_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SCAN_MAX 20000 /* runs that one call looks at: some milliseconds */

static const struct history_range ranges[] = {
	{"1h", 10 * UINT64_C(1000000), 360, 0},
	{"24h", 60 * UINT64_C(1000000), 1440, 1},
	{"7d", 600 * UINT64_C(1000000), 1008, 2},
	{"30d", 600 * UINT64_C(1000000), 4320, 2},
};

const struct history_range *history_find_range(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (strcmp(ranges[i].name, name) == 0)
			return &ranges[i];
	return NULL;
}

struct owner {
	enum history_scope scope;
	const char *project_id, *owner_id;
};

static struct owner owner_of(const char *project_id, const char *sandbox_id)
{
	return (struct owner){.scope = sandbox_id   ? HISTORY_SANDBOX
	                               : project_id ? HISTORY_PROJECT
	                                            : HISTORY_HOST,
	                      .project_id = project_id ? project_id : "",
	                      .owner_id = sandbox_id ? sandbox_id : ""};
}

/* A piece that waits to be written is newer than its row. */
static bool read_left(const struct history *h, const struct history_key *key, struct buf *ret)
{
	list_for_each (&h->left, struct late_piece, l, link)
		if (l->step == key->step && l->span == key->span &&
		    strcmp(l->owner_id, key->owner_id) == 0 &&
		    strcmp(l->project_id, key->project_id) == 0)
			return buf_append(ret, l->data.data, l->data.len) == 0;
	return false;
}

static int read_piece(struct history *h, const struct owner *o, unsigned step, uint64_t span,
                      struct buf *ret, struct err *err)
{
	const char *series_key = o->owner_id[0]     ? o->owner_id
	                         : o->project_id[0] ? o->project_id
	                                            : "host";
	const struct series *s = history_find_series(h, series_key);
	const struct history_key key = {step, span, o->project_id, o->owner_id};

	if (s && s->lines[step].is_used && s->lines[step].span == span &&
	    strcmp(s->project_id, o->project_id) == 0) {
		line_bytes(&s->lines[step], s->scope, ret);
		return 0;
	}
	if (read_left(h, &key, ret))
		return 0;
	return MIN(store_history_get(h->store, &key, ret, err), 0);
}

typedef void (*reading_fn)(uint64_t place, const struct reading *r, void *arg);

/* Calls fn for the readings of a stretch of places. */
static int each_reading(struct history *h, const struct owner *o, unsigned step, uint64_t from,
                        uint64_t to, reading_fn fn, void *arg, struct err *err)
{
	for (uint64_t span = from / PIECE_READINGS; span <= to / PIECE_READINGS; span++) {
		auto_call(buf_done) struct buf data = BUF_INIT(PIECE_BYTES_MAX);
		struct piece_reader reader;
		struct reading r;

		if (read_piece(h, o, step, span, &data, err) < 0)
			return -EIO;
		piece_read(&reader, data.data, data.len);
		while (piece_next(&reader, &r)) {
			uint64_t place = span * PIECE_READINGS + r.at;

			if (place >= from && place <= to)
				fn(place, &r, arg);
		}
	}
	return 0;
}

struct target {
	struct history_view *view;
	const struct history_figure *figures;
	uint64_t from;
};

static void fill(uint64_t place, const struct reading *r, void *arg)
{
	const struct target *f = arg;
	size_t row = (size_t)(place - f->from);

	f->view->is_known[row] = true;
	for (size_t i = 0; i < f->view->n_figures; i++)
		f->view->values[row * f->view->n_figures + i] = r->of[i] << f->figures[i].shift;
}

/* The host was read, so a project without a reading did nothing. */
static void mark(uint64_t place, const struct reading *r, void *arg)
{
	const struct target *f = arg;

	(void)r;
	f->view->is_known[place - f->from] = true;
}

int history_view(struct history *h, const char *project_id, const char *sandbox_id,
                 const struct history_range *range, struct history_view *ret, struct err *err)
{
	const struct owner o = owner_of(project_id, sandbox_id), host = owner_of(NULL, NULL);
	uint64_t to = history_now_us(h) / range->step_us;
	struct target f = {.view = ret, .from = to >= range->n ? to - range->n + 1 : 0};
	int r = 0;

	*ret = (struct history_view){
		.from_us = f.from * range->step_us, .step_us = range->step_us, .n = range->n};
	f.figures = history_figures(o.scope, &ret->n_figures);
	ret->is_known = xnew0n(bool, ret->n);
	ret->values = xnew0n(uint64_t, ret->n * ret->n_figures);
	to = f.from + range->n - 1;
	if (o.scope == HISTORY_PROJECT)
		r = each_reading(h, &host, range->step, f.from, to, mark, &f, err);
	if (r == 0)
		r = each_reading(h, &o, range->step, f.from, to, fill, &f, err);
	if (r < 0)
		history_view_done(ret);
	return r;
}

void history_view_done(struct history_view *view)
{
	free(take_ptr(view->is_known));
	free(take_ptr(view->values));
}

static void note(uint64_t place, const struct reading *r, void *arg)
{
	bool *is_there = arg;

	(void)place;
	(void)r;
	*is_there = true;
}

int history_has(struct history *h, const char *project_id, const char *sandbox_id, struct err *err)
{
	const struct owner o = owner_of(project_id, sandbox_id);
	bool is_there = false;

	for (unsigned i = 0; i < STEP_COUNT; i++)
		for (size_t k = 0; !is_there && k < h->spans[i].n; k++) {
			uint64_t from = h->spans[i].known[k] * PIECE_READINGS;
			int r = each_reading(h, &o, i, from, from + PIECE_READINGS - 1, note,
			                     &is_there, err);

			if (r < 0)
				return r;
		}
	return is_there;
}

struct walk {
	struct history *h;
	struct history_moment *moment;
	void (*fn)(const struct history_run *run, void *arg);
	void *arg;
	size_t n, n_scanned;
	bool has_more;
};

static void take_figures(uint64_t place, const struct reading *r, void *arg)
{
	struct history_run *run = arg;
	size_t n;
	const struct history_figure *figures = history_figures(HISTORY_SANDBOX, &n);

	(void)place;
	run->has_figures = true;
	run->cpu_milli = r->of[SANDBOX_CPU] << figures[SANDBOX_CPU].shift;
	run->memory_bytes = r->of[SANDBOX_MEMORY] << figures[SANDBOX_MEMORY].shift;
}

/* By the finest step that has the moment. */
static void find_figures(struct history *h, struct history_run *run, uint64_t at_us)
{
	const struct owner o = owner_of(run->project_id, run->sandbox_id);

	for (unsigned i = 0; i < STEP_COUNT && !run->has_figures; i++) {
		uint64_t place = at_us / history_steps[i].us;

		(void)!each_reading(h, &o, i, place, place, take_figures, run, NULL);
	}
}

static int on_run(const struct history_run_row *row, void *arg)
{
	struct walk *w = arg;
	struct history_moment *m = w->moment;
	struct history_run run = {.project_id = row->project_id,
	                          .sandbox_id = row->sandbox_id,
	                          .name = row->name,
	                          .template = row->template,
	                          .began_us = row->began_us,
	                          .ended_us = row->ended_us == HISTORY_RUNS_ON ? 0 : row->ended_us};

	w->has_more = w->n == m->limit || w->n_scanned++ == SCAN_MAX;
	if (w->has_more)
		return 1;
	m->after_us = row->ended_us;
	(void)snprintf(m->after_id, sizeof(m->after_id), "%s", row->sandbox_id);
	if (row->began_us > m->at_us)
		return 0;
	find_figures(w->h, &run, m->at_us);
	w->fn(&run, w->arg);
	w->n++;
	return 0;
}

int history_running(struct history *h, struct history_moment *moment,
                    void (*fn)(const struct history_run *run, void *arg), void *arg,
                    struct err *err)
{
	struct walk w = {.h = h, .moment = moment, .fn = fn, .arg = arg};
	int r;

	(void)!history_write(h, NULL); /* what cannot be written is not shown */
	if (!moment->after_id[0])
		moment->after_us = moment->at_us;
	r = store_history_each_run(h->store, moment->project_id, moment->after_us,
	                           moment->after_id[0] ? moment->after_id : "~", on_run, &w, err);
	return r < 0 ? r : w.has_more;
}
