// SPDX-License-Identifier: Apache-2.0
/*
 * Myers' greedy algorithm over lines, between the lines that both texts begin and end with. Its
 * cost grows with the number of lines that differ, so that number is bounded: EDITS_MAX, whose
 * trace is some MiB. Beyond that all lines in between are replaced, which is correct but less
 * helpful.
 *
 * The way back through the trace marks the lines that go and come; what is marked is then written
 * as hunks.
 */
#include "agent/archive/patch.h"

#include "base/parse.h"

#include <string.h>

#define CONTEXT   3
#define EDITS_MAX 1000

struct line {
	const char *text;
	size_t len; /* with its newline, if it has one */
	bool is_marked;
};

struct text {
	struct line *lines;
	size_t n;
};

bool patch_is_text(const char *data, size_t len)
{
	return !memchr(data, '\0', len) && utf8_is_valid(data, len);
}

static void text_split(struct text *t, const char *data, size_t len)
{
	size_t n = 0;

	for (const char *p = data, *end = data + len; p < end; n++) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));

		p = newline ? newline + 1 : end;
	}
	*t = (struct text){.lines = xcalloc(n + 1, sizeof(*t->lines)), .n = n};
	for (size_t i = 0; i < n; i++) {
		const char *newline = memchr(data, '\n', len);
		size_t size = newline ? (size_t)(newline - data) + 1 : len;

		t->lines[i] = (struct line){.text = data, .len = size};
		data += size;
		len -= size;
	}
}

static bool is_equal(const struct line *a, const struct line *b)
{
	return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* What is left between the lines that both begin and end with. */
struct middle {
	struct line *a, *b;
	long n, m;
};

static struct middle find_middle(const struct text *old, const struct text *now)
{
	struct middle mid = {old->lines, now->lines, (long)old->n, (long)now->n};

	while (mid.n > 0 && mid.m > 0 && is_equal(mid.a, mid.b)) {
		mid.a++;
		mid.b++;
		mid.n--;
		mid.m--;
	}
	while (mid.n > 0 && mid.m > 0 && is_equal(&mid.a[mid.n - 1], &mid.b[mid.m - 1])) {
		mid.n--;
		mid.m--;
	}
	return mid;
}

static void mark_all(const struct middle *mid)
{
	for (long i = 0; i < mid->n; i++)
		mid->a[i].is_marked = true;
	for (long i = 0; i < mid->m; i++)
		mid->b[i].is_marked = true;
}

/* The furthest x on each diagonal after d edits; diagonal k is at [d + k]. */
struct trace {
	long *at[EDITS_MAX + 1];
};

static void trace_done(struct trace *t)
{
	for (size_t d = 0; d <= EDITS_MAX; d++)
		free(t->at[d]);
}

/* Whether the d-th edit that leads to diagonal k brings a line (else it drops one). */
static bool comes_from_above(const long *before, long d, long k)
{
	return k == -d || (k != d && before[d - 1 + k - 1] < before[d - 1 + k + 1]);
}

static long first_x(const struct trace *t, long d, long k)
{
	if (d == 0)
		return 0;
	return comes_from_above(t->at[d - 1], d, k) ? t->at[d - 1][d - 1 + k + 1]
	                                            : t->at[d - 1][d - 1 + k - 1] + 1;
}

/* How many edits there are, or -1: too many. */
static long find_edits(const struct middle *mid, struct trace *t)
{
	for (long d = 0; d <= EDITS_MAX; d++) {
		t->at[d] = xcalloc((size_t)(2 * d + 1), sizeof(long));
		for (long k = -d; k <= d; k += 2) {
			long x = first_x(t, d, k), y = x - k;

			while (x < mid->n && y >= 0 && y < mid->m &&
			       is_equal(&mid->a[x], &mid->b[y])) {
				x++;
				y++;
			}
			t->at[d][d + k] = x;
			if (x >= mid->n && y >= mid->m)
				return d;
		}
	}
	return -1;
}

static void mark_edits(const struct middle *mid, const struct trace *t, long d)
{
	long k = mid->n - mid->m;

	for (; d > 0; d--) {
		bool is_new = comes_from_above(t->at[d - 1], d, k);
		long x = first_x(t, d, k), y = x - k;

		if (is_new && y - 1 >= 0 && y - 1 < mid->m)
			mid->b[y - 1].is_marked = true;
		else if (!is_new && x - 1 >= 0 && x - 1 < mid->n)
			mid->a[x - 1].is_marked = true;
		k += is_new ? 1 : -1;
	}
}

static void mark(const struct text *old, const struct text *now)
{
	const struct middle mid = find_middle(old, now);
	auto_call(trace_done) struct trace t = {0};
	long d = find_edits(&mid, &t);

	if (d < 0)
		mark_all(&mid);
	else
		mark_edits(&mid, &t, d);
}

static int put_line(struct buf *out, char sign, const struct line *l)
{
	int r = buf_append(out, &sign, 1);

	if (r == 0)
		r = buf_append(out, l->text, l->len);
	if (r == 0 && l->text[l->len - 1] != '\n')
		r = buf_printf(out, "\n\\ No newline at end of file\n");
	return r;
}

/* Lines a..a_end of the old text and b..b_end of the new one. */
struct hunk {
	size_t a, a_end, b, b_end;
};

static int put_lines(struct buf *out, const struct text *old, const struct text *now,
                     const struct hunk *h)
{
	size_t a = h->a, b = h->b;
	int r = 0;

	while (r == 0 && (a < h->a_end || b < h->b_end)) {
		if (a < h->a_end && old->lines[a].is_marked)
			r = put_line(out, '-', &old->lines[a++]);
		else if (b < h->b_end && now->lines[b].is_marked)
			r = put_line(out, '+', &now->lines[b++]);
		else {
			r = put_line(out, ' ', &old->lines[a++]);
			b++;
		}
	}
	return r;
}

static int put_hunk(struct buf *out, const struct text *old, const struct text *now,
                    const struct hunk *h)
{
	const size_t n = h->a_end - h->a, m = h->b_end - h->b;
	/* A side without lines is named by the line before it. */
	int r = buf_printf(out, "@@ -%zu,%zu +%zu,%zu @@\n", h->a + (n > 0), n, h->b + (m > 0), m);

	return r == 0 ? put_lines(out, old, now, h) : r;
}

static bool is_change(const struct text *old, const struct text *now, size_t a, size_t b)
{
	return (a < old->n && old->lines[a].is_marked) || (b < now->n && now->lines[b].is_marked);
}

/* From the change at a, b to where so many lines follow that two hunks would not touch. */
static struct hunk grow(const struct text *old, const struct text *now, size_t a, size_t b)
{
	const size_t before = MIN(MIN(a, b), (size_t)CONTEXT);
	struct hunk h = {.a = a - before, .b = b - before};
	size_t calm = 0;

	h.a_end = a;
	h.b_end = b;
	while ((a < old->n || b < now->n) && calm <= 2 * CONTEXT) {
		if (a < old->n && old->lines[a].is_marked) {
			a++;
			calm = 0;
		} else if (b < now->n && now->lines[b].is_marked) {
			b++;
			calm = 0;
		} else {
			a++;
			b++;
			calm++;
		}
		if (calm <= CONTEXT) {
			h.a_end = a;
			h.b_end = b;
		}
	}
	return h;
}

static int put_all(struct buf *out, const struct text *old, const struct text *now)
{
	size_t a = 0, b = 0;
	int r = 0;

	while (r == 0 && (a < old->n || b < now->n)) {
		if (is_change(old, now, a, b)) {
			const struct hunk h = grow(old, now, a, b);

			r = put_hunk(out, old, now, &h);
			a = h.a_end;
			b = h.b_end;
		} else {
			a++;
			b++;
		}
	}
	return r;
}

int patch_make(const char *old, size_t old_len, const char *now, size_t now_len, struct buf *out)
{
	const size_t before = out->len;
	struct text a, b;
	int r;

	text_split(&a, old, old_len);
	text_split(&b, now, now_len);
	mark(&a, &b);
	r = put_all(out, &a, &b);
	if (r < 0)
		buf_truncate(out, before);
	free(a.lines);
	free(b.lines);
	return r < 0 ? -E2BIG : 0;
}
