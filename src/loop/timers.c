// SPDX-License-Identifier: Apache-2.0
/* Timers are in a binary heap and know their place in it, so set and cancel are O(log n). */
#include "loop/loop_private.h"

static void heap_place(struct loop *loop, size_t place, struct loop_timer *t)
{
	loop->heap[place] = t;
	t->place = place;
}

static void heap_up(struct loop *loop, size_t place, struct loop_timer *t)
{
	while (place > 0 && loop->heap[(place - 1) / 2]->at_us > t->at_us) {
		heap_place(loop, place, loop->heap[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	heap_place(loop, place, t);
}

static void heap_down(struct loop *loop, size_t place, struct loop_timer *t)
{
	for (;;) {
		size_t child = place * 2 + 1;

		if (child >= loop->heap_len)
			break;
		if (child + 1 < loop->heap_len &&
		    loop->heap[child + 1]->at_us < loop->heap[child]->at_us)
			child++;
		if (loop->heap[child]->at_us >= t->at_us)
			break;
		heap_place(loop, place, loop->heap[child]);
		place = child;
	}
	heap_place(loop, place, t);
}

static void heap_remove(struct loop_timer *t)
{
	struct loop *loop = t->loop;
	size_t place = t->place;
	struct loop_timer *last;

	if (place == SIZE_MAX)
		return;
	t->place = SIZE_MAX;
	last = loop->heap[--loop->heap_len];
	if (last == t)
		return;
	heap_down(loop, place, last);
	heap_up(loop, last->place, last);
}

struct loop_timer *loop_timer_new_named(struct loop *loop, loop_fn fn, void *arg, const char *name)
{
	struct loop_timer *t = xnew0(struct loop_timer);

	*t = (struct loop_timer){.loop = loop,
	                         .name = name,
	                         .fn = fn,
	                         .arg = arg,
	                         .at_us = UINT64_MAX,
	                         .place = SIZE_MAX};
	return t;
}

void loop_timer_set(struct loop_timer *t, uint64_t at_us)
{
	struct loop *loop = t->loop;

	heap_remove(t);
	/* One that sets itself to "now" must not keep the turn going. */
	if (loop->runs_timers && at_us <= loop->now_us)
		at_us = loop->now_us + 1;
	t->at_us = at_us;
	if (at_us == UINT64_MAX)
		return;
	if (loop->heap_len == loop->heap_size) {
		loop->heap_size = loop->heap_size ? loop->heap_size * 2 : 16;
		loop->heap = xrealloc(loop->heap, loop->heap_size * sizeof(struct loop_timer *));
	}
	heap_up(loop, loop->heap_len++, t);
}

void loop_timer_set_in(struct loop_timer *t, uint64_t in_us)
{
	uint64_t at;

	if (__builtin_add_overflow(t->loop->now_us, in_us, &at))
		at = UINT64_MAX;
	loop_timer_set(t, at);
}

bool loop_timer_is_set(const struct loop_timer *t)
{
	return t->place != SIZE_MAX;
}

void loop_timer_free(struct loop_timer *t)
{
	if (!t)
		return;
	heap_remove(t);
	free(t);
}

void timers_run(struct loop *loop)
{
	loop->runs_timers = true;
	while (loop->heap_len > 0 && loop->heap[0]->at_us <= loop->now_us) {
		struct loop_timer *t = loop->heap[0];
		const char *name = t->name;

		heap_remove(t);
		t->fn(loop, t->arg);
		turn_lap(loop, name);
	}
	loop->runs_timers = false;
}
