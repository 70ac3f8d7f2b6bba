// SPDX-License-Identifier: Apache-2.0
/*
 * Taking readings. A timer wakes in the middle of each period of the wall clock, so that a timer
 * that is a little late still hits its place. After the start nothing is kept until every sandbox
 * was read once: the first difference would be all that was used while nobody looked.
 */
#include "history/history.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text/decimal.h"
#include "base/units.h"
#include "history/history_private.h"

#include <stdio.h>
#include <string.h>

#define PERIOD_US_MAX (10 * SECOND_US)
#define WARM_US_MAX   (60 * SECOND_US)
#define HOST_KEY      "host"

const struct step history_steps[STEP_COUNT] = {
	{10 * SECOND_US, 7},
	{60 * SECOND_US, 25},
	{600 * SECOND_US, SPANS_MAX},
};

DEFINE_FREEP(struct history, history_close)

uint64_t history_now_us(const struct history *h)
{
	return h->config.wall_us ? h->config.wall_us() : clock_wall_us();
}

static uint64_t steady_us(const struct history *h)
{
	return h->config.steady_us ? h->config.steady_us() : clock_steady_us();
}

static uint64_t period_us(const struct history *h)
{
	return MIN(h->config.period_us, PERIOD_US_MAX);
}

struct project *history_project(struct history *h, const char *id)
{
	struct project *p = NULL;

	HASH_FIND_STR(h->projects, id, p);
	if (p)
		return p;
	p = xnew0(struct project);
	(void)snprintf(p->id, sizeof(p->id), "%s", id);
	list_init(&p->changed);
	HASH_ADD_STR(h->projects, id, p);
	return p;
}

struct series *history_find_series(const struct history *h, const char *key)
{
	struct series *s = NULL;

	HASH_FIND_STR(h->series, key, s);
	return s;
}

void series_free(struct history *h, struct series *s)
{
	HASH_DEL(h->series, s);
	list_remove(&s->due);
	for (unsigned i = 0; i < STEP_COUNT; i++)
		line_done(&s->lines[i]);
	free(s);
}

void late_piece_free(struct history *h, struct late_piece *l)
{
	list_remove(&l->link);
	h->n_left--;
	buf_done(&l->data);
	free(l);
}

static struct series *series_of(struct history *h, enum history_scope scope, const char *project_id,
                                const char *owner_id)
{
	const char *key = owner_id[0] ? owner_id : project_id[0] ? project_id : HOST_KEY;
	struct series *s = history_find_series(h, key);

	if (s)
		return s;
	s = xnew0(struct series);
	s->scope = scope;
	(void)snprintf(s->key, sizeof(s->key), "%s", key);
	(void)snprintf(s->project_id, sizeof(s->project_id), "%s", project_id);
	(void)snprintf(s->owner_id, sizeof(s->owner_id), "%s", owner_id);
	s->turn = (unsigned)(HASH_COUNT(h->series) % WRITE_TURNS);
	list_init(&s->due);
	for (unsigned i = 0; i < STEP_COUNT; i++)
		line_init(&s->lines[i]);
	HASH_ADD_STR(h->series, key, s);
	return s;
}

/* Its span is over, its last readings are not written yet. */
static void leave_span(struct history *h, struct series *s, unsigned step)
{
	struct line *line = &s->lines[step];
	struct late_piece *l;

	if (!line->is_dirty || h->n_left >= LEFT_MAX)
		return;
	l = xnew0(struct late_piece);
	memcpy(l->project_id, s->project_id, sizeof(l->project_id));
	memcpy(l->owner_id, s->owner_id, sizeof(l->owner_id));
	l->step = step;
	l->span = line->span;
	l->stored = line->stored;
	buf_init(&l->data, PIECE_BYTES_MAX);
	line_bytes(line, s->scope, &l->data);
	list_append(&h->left, &l->link);
	h->n_left++;
}

/* A piece that waits to be written is taken back: the clock was set back into its span. */
static bool take_left(struct history *h, const struct series *s, unsigned step, uint64_t span,
                      struct buf *ret, size_t *ret_stored)
{
	list_for_each (&h->left, struct late_piece, l, link) {
		if (l->step != step || l->span != span || strcmp(l->owner_id, s->owner_id) != 0 ||
		    strcmp(l->project_id, s->project_id) != 0)
			continue;
		(void)!buf_append(ret, l->data.data, l->data.len);
		*ret_stored = l->stored;
		late_piece_free(h, l);
		return true;
	}
	return false;
}

static void enter_span(struct history *h, struct series *s, unsigned step, uint64_t span,
                       uint32_t at)
{
	const struct history_key key = {step, span, s->project_id, s->owner_id};
	auto_call(buf_done) struct buf row = BUF_INIT(PIECE_BYTES_MAX);
	struct line *line = &s->lines[step];
	size_t stored;

	if (line->is_used)
		leave_span(h, s, step);
	if (line->is_used && h->is_fresh[step]) {
		line_begin(line, s->scope, span, NULL, at);
		return;
	}
	if (take_left(h, s, step, span, &row, &stored)) {
		line_begin(line, s->scope, span, &row, at);
		line->stored = stored;
		line->is_dirty = true;
		return;
	}
	/* If it cannot be read, it is replaced. */
	(void)!store_history_get(h->store, &key, &row, NULL);
	line_begin(line, s->scope, span, &row, at);
}

static void add_reading(struct history *h, struct series *s, const uint64_t of[HISTORY_FIGURES_MAX])
{
	s->fed = h->number;
	s->is_over = false;
	for (unsigned i = 0; i < STEP_COUNT; i++) {
		uint64_t place = h->wall_us / history_steps[i].us;
		uint64_t span = place / PIECE_READINGS;
		uint32_t at = (uint32_t)(place % PIECE_READINGS);

		if (!s->lines[i].is_used || s->lines[i].span != span)
			enter_span(h, s, i, span, at);
		line_add(&s->lines[i], s->scope, at, of);
	}
}

static uint64_t per_second(uint64_t more, uint64_t elapsed_us)
{
	return scale_u64(more, SECOND_US, MAX(elapsed_us, 1U));
}

static uint64_t grown(uint64_t *seen, uint64_t now)
{
	uint64_t more = now > *seen ? now - *seen : 0;

	*seen = now;
	return more;
}

void history_feed(struct history *h, const struct history_feed *feed)
{
	struct series *s = series_of(h, HISTORY_SANDBOX, feed->project_id, feed->sandbox_id);
	struct project *p = history_project(h, feed->project_id);
	uint64_t elapsed_us = steady_us(h) - h->taken_us;
	uint64_t of[HISTORY_FIGURES_MAX] = {
		[SANDBOX_MEMORY] = feed->memory_bytes, [SANDBOX_DISK] = feed->disk_bytes};

	if (!s->has_seen && !feed->is_new) {
		s->seen_cpu_ns = feed->cpu_ns;
		s->seen_in_bytes = feed->network_in_bytes;
		s->seen_out_bytes = feed->network_out_bytes;
	}
	s->has_seen = true;
	of[SANDBOX_CPU] = grown(&s->seen_cpu_ns, feed->cpu_ns) / MAX(elapsed_us, 1U);
	of[SANDBOX_NETWORK_IN] =
		per_second(grown(&s->seen_in_bytes, feed->network_in_bytes), elapsed_us);
	of[SANDBOX_NETWORK_OUT] =
		per_second(grown(&s->seen_out_bytes, feed->network_out_bytes), elapsed_us);
	p->of[PROJECT_MEMORY] += feed->memory_bytes;
	p->of[PROJECT_DISK] += feed->disk_bytes;
	p->of[PROJECT_SANDBOXES]++;
	add_reading(h, s, of);
}

void history_on_use(struct history *h, const char *project_id, const struct usage *more)
{
	struct usage *used = &history_project(h, project_id)->used;

	for (size_t i = 0; i < USAGE_FIGURE_COUNT; i++)
		used->of[i] += more->of[i];
}

/* Adds what a project did since the last reading to the host's figures, and begins anew. */
static void read_project(struct history *h, struct project *p, uint64_t elapsed_us,
                         uint64_t of_host[HISTORY_FIGURES_MAX])
{
	uint64_t of[HISTORY_FIGURES_MAX] = {0};
	bool is_idle = true;

	memcpy(of, p->of, sizeof(p->of));
	of[PROJECT_CPU] = p->used.of[USAGE_CPU_NS] / MAX(elapsed_us, 1U);
	of[PROJECT_NETWORK_IN] = per_second(p->used.of[USAGE_NETWORK_IN_BYTES], elapsed_us);
	of[PROJECT_NETWORK_OUT] = per_second(p->used.of[USAGE_NETWORK_OUT_BYTES], elapsed_us);
	of[PROJECT_CREATES] = p->used.of[USAGE_CREATES];
	of[PROJECT_EXECS] = p->used.of[USAGE_EXECS];
	of[PROJECT_CALLS] = p->used.of[USAGE_CALLS];
	memset(p->of, 0, sizeof(p->of));
	p->used = (struct usage){0};
	for (unsigned i = 0; i < PROJECT_FIGURES; i++) {
		is_idle = is_idle && of[i] == 0;
		of_host[i] += of[i];
	}
	if (!is_idle)
		add_reading(h, series_of(h, HISTORY_PROJECT, p->id, ""), of);
}

static void retire(struct history *h, uint32_t step, uint64_t span)
{
	struct span_removal *r = xnew0(struct span_removal);

	*r = (struct span_removal){.step = step, .span = span};
	list_append(&h->retired, &r->link);
}

static bool keep_again(struct history *h, uint32_t step, uint64_t span)
{
	list_for_each (&h->retired, struct span_removal, r, link)
		if (r->step == step && r->span == span) {
			list_remove(&r->link);
			free(r);
			return true;
		}
	return false;
}

/* Makes a span the last of its step, and retires the first if there are too many. Returns whether
 * it is new. */
static bool know_span(struct history *h, uint32_t step, uint64_t span)
{
	struct spans *s = &h->spans[step];
	bool is_new;

	for (size_t i = 0; i < s->n; i++)
		if (s->known[i] == span)
			return false;
	is_new = !keep_again(h, step, span);
	s->known[s->n++] = span;
	if (s->n > history_steps[step].spans) {
		retire(h, step, s->known[0]);
		memmove(&s->known[0], &s->known[1], --s->n * sizeof(s->known[0]));
	}
	return is_new;
}

static void know_present(struct history *h)
{
	for (unsigned i = 0; i < STEP_COUNT; i++)
		h->is_fresh[i] = know_span(h, i, h->wall_us / history_steps[i].us / PIECE_READINGS);
}

static void find_due(struct history *h)
{
	struct series *next;

	for (struct series *s = h->series; s; s = next) {
		next = s->hh.next;
		s->is_over = s->fed != h->number && s->scope != HISTORY_HOST;
		if (!list_empty(&s->due))
			continue;
		if (s->is_over || s->turn == h->number % WRITE_TURNS)
			list_append(&h->due, &s->due);
	}
}

/* What was used while nobody looked. Creates and execs are told as they come, so they stay. */
static void skip_unseen(struct history *h)
{
	for (struct project *p = h->projects; p; p = p->hh.next)
		p->used.of[USAGE_CPU_NS] = p->used.of[USAGE_NETWORK_IN_BYTES] =
			p->used.of[USAGE_NETWORK_OUT_BYTES] = 0;
}

void history_take_reading(struct history *h)
{
	uint64_t now_us = steady_us(h), elapsed_us = now_us - h->taken_us;
	uint64_t of[HISTORY_FIGURES_MAX] = {0};

	if (!h->sources.host(elapsed_us, of, h->sources.arg) ||
	    now_us - h->started_us < MIN(h->config.period_us / 4 * 5, WARM_US_MAX)) {
		skip_unseen(h);
		h->taken_us = now_us;
		return;
	}
	h->number++;
	h->wall_us = history_now_us(h);
	know_present(h);
	h->sources.feed(h->sources.arg);
	for (struct project *p = h->projects; p; p = p->hh.next)
		read_project(h, p, elapsed_us, of);
	add_reading(h, series_of(h, HISTORY_HOST, "", ""), of);
	h->taken_us = now_us;
	find_due(h);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct history *h = arg;
	uint64_t period = period_us(h), wait_us;

	(void)loop;
	history_take_reading(h);
	loop_job_start(h->job);
	wait_us = period - (history_now_us(h) + period / 2) % period;
	loop_timer_set_in(h->timer, wait_us < period / 2 ? wait_us + period : wait_us);
}

static int load_spans(struct history *h, uint32_t step, uint64_t from, uint64_t to, struct err *err)
{
	uint64_t span;
	int r;

	while ((r = store_history_span(h->store, step, from, &span, err)) > 0 && span <= to) {
		(void)know_span(h, step, span);
		from = span + 1;
	}
	return MIN(r, 0);
}

/* Spans of a time to come are the first to be removed: the clock was wrong when they were
 * written. */
static int load_step(struct history *h, uint32_t step, struct err *err)
{
	uint64_t now = history_now_us(h) / history_steps[step].us / PIECE_READINGS;
	int r = load_spans(h, step, now + 1, INT64_MAX, err);

	return r < 0 ? r : load_spans(h, step, 0, now, err);
}

static int load_room(const struct history_room_row *row, void *arg)
{
	struct history *h = arg;
	struct project *p = history_project(h, row->project_id);

	p->bytes = p->new_bytes = row->bytes;
	p->runs = p->new_runs = row->runs;
	h->bytes += row->bytes;
	h->n_runs += row->runs;
	return 0;
}

/* When the host had its last reading. */
static void find_alive(struct history *h)
{
	const struct spans *s = &h->spans[0];
	const struct history_key key = {0, s->n ? s->known[s->n - 1] : 0, "", ""};
	auto_call(buf_done) struct buf row = BUF_INIT(PIECE_BYTES_MAX);
	struct piece_reader reader;
	struct reading r = {0};

	if (store_history_get(h->store, &key, &row, NULL) <= 0)
		return;
	piece_read(&reader, row.data, row.len);
	while (piece_next(&reader, &r))
		;
	h->alive_us = (key.span * PIECE_READINGS + r.at) * history_steps[0].us;
}

static int load(struct history *h, struct err *err)
{
	int r = store_history_open(h->config.store, &h->store, err);

	if (r == 0)
		r = store_history_each_room(h->store, load_room, h, err);
	for (unsigned i = 0; r == 0 && i < STEP_COUNT; i++)
		r = load_step(h, i, err);
	if (r == 0)
		r = runs_load(h, err);
	if (r == 0)
		find_alive(h);
	return r;
}

int history_open(const struct history_config *config, struct history **ret, struct err *err)
{
	auto_call(history_closep) struct history *h = xnew0(struct history);
	int r;

	h->config = *config;
	list_init(&h->retired);
	list_init(&h->due);
	list_init(&h->left);
	list_init(&h->runs_due);
	list_init(&h->changed);
	list_init(&h->wrote);
	list_init(&h->wrote_left);
	list_init(&h->wrote_runs);
	r = load(h, err);
	if (r < 0)
		return r;
	*ret = take_ptr(h);
	return 0;
}

void history_start(struct history *h, const struct history_sources *sources)
{
	h->sources = *sources;
	h->started_us = h->taken_us = steady_us(h);
	h->job = loop_job_new(h->config.loop, history_write_some, h);
	h->timer = loop_timer_new(h->config.loop, on_timer, h);
	loop_timer_set_in(h->timer, period_us(h) / 2);
}

static void write_last(struct history *h)
{
	struct err err;

	for (struct series *s = h->series; s; s = s->hh.next)
		if (list_empty(&s->due))
			list_append(&h->due, &s->due);
	if (history_write(h, &err) < 0)
		log_error("history.not_written", "error='%s'", err.message);
}

static void stop(struct history *h)
{
	if (h->store)
		write_last(h);
	loop_timer_free(take_ptr(h->timer));
	loop_job_free(take_ptr(h->job));
	h->sources = (struct history_sources){0};
}

void history_stop(struct history *h)
{
	if (h)
		stop(h);
}

void history_close(struct history *h)
{
	struct project *p, *next;

	if (!h)
		return;
	stop(h);
	while (h->series)
		series_free(h, h->series);
	list_for_each (&h->left, struct late_piece, l, link)
		late_piece_free(h, l);
	list_for_each (&h->retired, struct span_removal, r, link)
		free(r);
	runs_free(h);
	HASH_ITER (hh, h->projects, p, next) {
		HASH_DEL(h->projects, p);
		free(p);
	}
	store_history_close(h->store);
	free(h);
}

uint64_t history_bytes(const struct history *h)
{
	return h->bytes;
}
