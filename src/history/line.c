// SPDX-License-Identifier: Apache-2.0
#include "history/line.h"

void line_init(struct line *l)
{
	*l = (struct line){.done = BUF_INIT(PIECE_BYTES_MAX)};
}

void line_done(struct line *l)
{
	buf_done(&l->done);
}

/* Means become sums to count with (up = true), and means again to be kept. */
static struct reading turn(const struct reading *r, enum history_scope scope, bool up)
{
	struct reading turned = *r;
	size_t n;
	const struct history_figure *figures = history_figures(scope, &n);

	for (size_t i = 0; i < n; i++)
		if (figures[i].way == HISTORY_MEAN)
			turned.of[i] = up ? r->of[i] * r->n : r->of[i] / MAX(r->n, 1U);
	return turned;
}

static void append_open(const struct line *l, enum history_scope scope, struct buf *ret)
{
	const struct reading mean = turn(&l->open, scope, false);
	size_t n;

	(void)history_figures(scope, &n);
	piece_append(ret, n, l->has_last ? &l->last : NULL, &mean);
}

static void close_open(struct line *l, enum history_scope scope)
{
	if (l->open.n == 0)
		return;
	append_open(l, scope, &l->done);
	l->last = turn(&l->open, scope, false);
	l->has_last = true;
	l->open.n = 0;
}

void line_begin(struct line *l, enum history_scope scope, uint64_t span, const struct buf *row,
                uint32_t at)
{
	struct piece_reader reader;
	struct reading r;

	buf_truncate(&l->done, 0);
	l->span = span;
	l->is_used = true;
	l->is_dirty = l->has_last = false;
	l->open.n = 0;
	l->stored = row ? row->len : 0;
	l->writing = 0;
	piece_read(&reader, row ? row->data : NULL, row ? row->len : 0);
	while (piece_next(&reader, &r) && r.at <= at) {
		close_open(l, scope);
		l->open = turn(&r, scope, true);
	}
}

/* The clock was set back within the span. */
static void go_back(struct line *l, enum history_scope scope, uint32_t at)
{
	auto_call(buf_done) struct buf now = BUF_INIT(PIECE_BYTES_MAX);
	size_t stored = l->stored;

	line_bytes(l, scope, &now);
	line_begin(l, scope, l->span, &now, at);
	l->stored = stored;
}

static void take(struct reading *open, enum history_way way, size_t i, uint64_t v)
{
	switch (way) {
	case HISTORY_MEAN:
	case HISTORY_SUM:
		open->of[i] += v;
		break;
	case HISTORY_MAX:
		open->of[i] = MAX(open->of[i], v);
		break;
	case HISTORY_MIN:
		open->of[i] = MIN(open->of[i], v);
		break;
	}
}

void line_add(struct line *l, enum history_scope scope, uint32_t at,
              const uint64_t of[HISTORY_FIGURES_MAX])
{
	size_t n;
	const struct history_figure *figures = history_figures(scope, &n);
	uint32_t newest = l->open.n ? l->open.at : l->has_last ? l->last.at : 0;

	if (at < newest)
		go_back(l, scope, at);
	if (l->open.n > 0 && l->open.at != at)
		close_open(l, scope);
	if (l->open.n == 0) {
		l->open = (struct reading){.at = at};
		for (size_t i = 0; i < n; i++)
			l->open.of[i] = figures[i].way == HISTORY_MIN ? UINT64_MAX : 0;
	}
	for (size_t i = 0; i < n; i++)
		take(&l->open, figures[i].way, i, of[i] >> figures[i].shift);
	l->open.n++;
	l->is_dirty = true;
}

void line_bytes(const struct line *l, enum history_scope scope, struct buf *ret)
{
	if (l->done.len > 0)
		(void)!buf_append(ret, l->done.data, l->done.len);
	if (l->open.n > 0)
		append_open(l, scope, ret);
}
