// SPDX-License-Identifier: Apache-2.0
#include "sandbox/agentlink/sent_input.h"

#include "proto/frame.h"

#include <assert.h>
#include <string.h>

/* Less than what malloc() would map and unmap each time (daemon/memory.c). */
#define PIECE_SIZE (32 * 1024)

static_assert(SENT_INPUT_MAX == FRAME_WINDOW,
              "a channel keeps another number of bytes than it sends");

struct sent_piece {
	struct sent_piece *next;
	size_t from, to; /* those of its bytes that are not taken */
	char data[];
};

size_t sent_input_room(const struct sent_input *u)
{
	return SENT_INPUT_MAX - u->len;
}

static void add_piece(struct sent_input *u)
{
	struct sent_piece *p = xrealloc(NULL, sizeof(*p) + PIECE_SIZE);

	p->next = NULL;
	p->from = p->to = 0;
	if (u->last)
		u->last->next = p;
	else
		u->first = p;
	u->last = p;
}

void sent_input_append(struct sent_input *u, const char *data, size_t len)
{
	assert(len <= sent_input_room(u));
	while (len > 0) {
		struct sent_piece *p;
		size_t n;

		if (!u->last || u->last->to == PIECE_SIZE)
			add_piece(u);
		p = u->last;
		n = MIN(len, PIECE_SIZE - p->to);
		memcpy(p->data + p->to, data, n);
		p->to += n;
		u->len += n;
		data += n;
		len -= n;
	}
}

static void drop_first(struct sent_input *u)
{
	struct sent_piece *p = u->first;

	u->first = p->next;
	if (!u->first)
		u->last = NULL;
	free(p);
}

void sent_input_consume(struct sent_input *u, size_t len)
{
	assert(len <= u->len);
	u->len -= len;
	while (len > 0) {
		struct sent_piece *p = u->first;
		size_t n = MIN(len, p->to - p->from);

		p->from += n;
		len -= n;
		if (p->from == p->to)
			drop_first(u);
	}
}

void sent_input_done(struct sent_input *u)
{
	sent_input_consume(u, u->len);
}

int sent_input_each(const struct sent_input *u, int (*fn)(const char *data, size_t len, void *arg),
                    void *arg)
{
	int r = 0;

	for (const struct sent_piece *p = u->first; r >= 0 && p; p = p->next)
		r = fn(p->data + p->from, p->to - p->from, arg);
	return r;
}
