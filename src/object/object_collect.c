// SPDX-License-Identifier: Apache-2.0
#include "object/object_collect.h"

#include <string.h>

#define BITS_EACH  10
#define BITS_LEAST ((uint64_t)1 << 16)
#define BITS_MOST  ((uint64_t)1 << 28)
#define PROBES     7

struct object_filter {
	uint64_t mask, seed;
	uint64_t bits[];
};

static bool is_older(uint64_t written_us, uint64_t now_us, uint64_t than_us)
{
	return now_us > written_us && now_us - written_us > than_us;
}

bool object_is_fresh(uint64_t written_us, uint64_t now_us)
{
	return !is_older(written_us, now_us, OBJECT_FRESH_US);
}

struct object_filter *object_filter_new(size_t n_names, uint64_t seed)
{
	struct object_filter *n;
	uint64_t bits = BITS_LEAST;

	while (bits < BITS_MOST && bits / BITS_EACH < n_names)
		bits *= 2;
	n = xcalloc(1, sizeof(*n) + bits / 8);
	n->mask = bits - 1;
	n->seed = seed;
	return n;
}

void object_filter_free(struct object_filter *n)
{
	free(n);
}

/* A name is an HMAC, so its bytes are spread already; only the seed is to be mixed in. */
static void spread(const struct object_filter *n, const struct digest *name, uint64_t *ret_at,
                   uint64_t *ret_step)
{
	uint64_t a, b;

	memcpy(&a, name->bytes, sizeof(a));
	memcpy(&b, name->bytes + sizeof(a), sizeof(b));
	a = (a ^ n->seed) * UINT64_C(0x9e3779b97f4a7c15);
	b = (b ^ n->seed) * UINT64_C(0xc2b2ae3d27d4eb4f);
	*ret_at = a ^ a >> 32;
	*ret_step = (b ^ b >> 32) | 1;
}

void object_filter_add(struct object_filter *n, const struct digest *name)
{
	uint64_t at, step;

	spread(n, name, &at, &step);
	for (size_t i = 0; i < PROBES; i++, at += step)
		n->bits[(at & n->mask) / 64] |= UINT64_C(1) << (at & 63);
}

bool object_filter_has(const struct object_filter *n, const struct digest *name)
{
	uint64_t at, step;

	spread(n, name, &at, &step);
	for (size_t i = 0; i < PROBES; i++, at += step)
		if (!(n->bits[(at & n->mask) / 64] & UINT64_C(1) << (at & 63)))
			return false;
	return true;
}

size_t object_collect(struct object_row *rows, size_t n, const struct object_filter *needed,
                      uint64_t read_us)
{
	size_t n_removed = 0;

	for (size_t i = 0; i < n; i++) {
		const struct object_row row = rows[i];

		if (!is_older(row.written_us, read_us, OBJECT_GRACE_US) ||
		    object_filter_has(needed, &row.name))
			continue;
		rows[i] = rows[n_removed];
		rows[n_removed++] = row;
	}
	return n_removed;
}
