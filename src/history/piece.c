// SPDX-License-Identifier: Apache-2.0
#include "history/piece.h"

#define VERSION 1

static void put_number(struct buf *b, uint64_t v)
{
	uint8_t bytes[10];
	size_t n = 0;

	do {
		bytes[n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		v >>= 7;
	} while (v > 0);
	(void)!buf_append(b, bytes, n); /* PIECE_BYTES_MAX holds every piece */
}

static bool get_number(struct piece_reader *r, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && r->p < r->end; shift += 7) {
		uint8_t byte = *r->p++;

		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		*ret = v;
		return true;
	}
	return false;
}

/* A difference in either direction, by size: small ones take few bytes. They wrap around, so each
 * pair of numbers has one. */
static uint64_t fold(uint64_t from, uint64_t to)
{
	uint64_t d = to - from;

	return d << 1 ^ (d >> 63 ? UINT64_MAX : 0);
}

static uint64_t unfold(uint64_t from, uint64_t folded)
{
	return from + (folded >> 1 ^ (folded & 1 ? UINT64_MAX : 0));
}

void piece_append(struct buf *b, size_t n_figures, const struct reading *last,
                  const struct reading *next)
{
	static const struct reading none;

	if (!last) {
		put_number(b, VERSION);
		put_number(b, n_figures);
	}
	put_number(b, last ? next->at - last->at - 1 : next->at);
	put_number(b, next->n);
	last = last ? last : &none;
	for (size_t i = 0; i < n_figures; i++)
		put_number(b, fold(last->of[i], next->of[i]));
}

void piece_read(struct piece_reader *r, const void *data, size_t len)
{
	uint64_t version = 0, n = 0;

	*r = (struct piece_reader){.p = data, .end = (const uint8_t *)data + len};
	if (!get_number(r, &version) || version != VERSION || !get_number(r, &n) || n > UINT8_MAX)
		r->p = r->end;
	r->n_figures = (size_t)n;
}

bool piece_next(struct piece_reader *r, struct reading *ret)
{
	uint64_t gap, n, folded;

	if (!get_number(r, &gap) || gap >= PIECE_READINGS || !get_number(r, &n) || n == 0 ||
	    n > UINT32_MAX)
		return false;
	gap += r->has_last ? r->last.at + 1 : 0;
	if (gap >= PIECE_READINGS)
		return false;
	for (size_t i = 0; i < r->n_figures; i++) {
		if (!get_number(r, &folded))
			return false;
		if (i < HISTORY_FIGURES_MAX) /* a newer program has more */
			r->last.of[i] = unfold(r->last.of[i], folded);
	}
	r->last.at = (uint32_t)gap;
	r->last.n = (uint32_t)n;
	r->has_last = true;
	*ret = r->last;
	return true;
}
