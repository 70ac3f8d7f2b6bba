// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/memory/checksum.h"

#include <endian.h>
#include <string.h>

#define PRIME_1 0x9e3779b185ebca87ULL
#define PRIME_2 0xc2b2ae3d27d4eb4fULL
#define PRIME_3 0x165667b19e3779f9ULL
#define PRIME_4 0x85ebca77c2b2ae63ULL
#define PRIME_5 0x27d4eb2f165667c5ULL
#define STRIPE  32

static uint64_t rotate(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

static uint64_t read_word(const unsigned char *at)
{
	uint64_t x;

	memcpy(&x, at, sizeof(x));
	return le64toh(x);
}

static uint64_t mix(uint64_t lane, uint64_t word)
{
	return rotate(lane + word * PRIME_2, 31) * PRIME_1;
}

static uint64_t merge(uint64_t sum, uint64_t lane)
{
	return (sum ^ mix(0, lane)) * PRIME_1 + PRIME_4;
}

/* Whole stripes. */
static void add_stripes(struct checksum *c, const unsigned char *at, size_t len)
{
	uint64_t a = c->lanes[0], b = c->lanes[1], d = c->lanes[2], e = c->lanes[3];

	for (const unsigned char *end = at + len; at < end; at += STRIPE) {
		a = mix(a, read_word(at));
		b = mix(b, read_word(at + 8));
		d = mix(d, read_word(at + 16));
		e = mix(e, read_word(at + 24));
	}
	c->lanes[0] = a;
	c->lanes[1] = b;
	c->lanes[2] = d;
	c->lanes[3] = e;
}

void checksum_init(struct checksum *c)
{
	*c = (struct checksum){.lanes = {PRIME_1 + PRIME_2, PRIME_2, 0, -PRIME_1}};
}

void checksum_add(struct checksum *c, const void *data, size_t len)
{
	const unsigned char *at = data;
	const size_t held = c->total % STRIPE;
	size_t n;

	if (len == 0)
		return;
	c->total += len;
	if (held > 0) {
		n = len < STRIPE - held ? len : STRIPE - held;
		memcpy(c->rest + held, at, n);
		at += n;
		len -= n;
		if (held + n < STRIPE)
			return;
		add_stripes(c, c->rest, STRIPE);
	}
	n = len - len % STRIPE;
	add_stripes(c, at, n);
	memcpy(c->rest, at + n, len - n);
}

uint64_t checksum_end(const struct checksum *c)
{
	const unsigned char *at = c->rest, *end = at + c->total % STRIPE;
	uint64_t sum = PRIME_5;

	if (c->total >= STRIPE) {
		sum = rotate(c->lanes[0], 1) + rotate(c->lanes[1], 7) + rotate(c->lanes[2], 12) +
		      rotate(c->lanes[3], 18);
		for (size_t i = 0; i < 4; i++)
			sum = merge(sum, c->lanes[i]);
	}
	sum += c->total;
	for (; end - at >= 8; at += 8)
		sum = rotate(sum ^ mix(0, read_word(at)), 27) * PRIME_1 + PRIME_4;
	if (end - at >= 4) {
		uint32_t x;

		memcpy(&x, at, sizeof(x));
		sum = rotate(sum ^ le32toh(x) * PRIME_1, 23) * PRIME_2 + PRIME_3;
		at += 4;
	}
	for (; at < end; at++)
		sum = rotate(sum ^ *at * PRIME_5, 11) * PRIME_1;
	sum = (sum ^ sum >> 33) * PRIME_2;
	sum = (sum ^ sum >> 29) * PRIME_3;
	return sum ^ sum >> 32;
}
