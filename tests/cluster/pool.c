// SPDX-License-Identifier: Apache-2.0
/* Time, chance and memory of the simulation. */
#include "world_private.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

uint64_t draw(struct world *w) /* splitmix64 */
{
	uint64_t z = w->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t draw_below(struct world *w, uint64_t n)
{
	return draw(w) % n;
}

double draw_exponential(struct world *w, double mean)
{
	return -log(1 - (double)(draw(w) >> 11) * 0x1p-53) * mean;
}

void later(struct world *w, uint64_t in_us, enum event_kind kind, uint32_t node, uint32_t item,
           uint64_t stamp)
{
	struct event e = {w->now_us + in_us, kind, node, item, stamp};
	size_t i = w->n_heap++;

	if (w->n_heap > w->heap_size) {
		w->heap_size = MAX(w->heap_size * 2, 1024);
		w->heap = xrealloc(w->heap, w->heap_size * sizeof(*w->heap));
	}
	for (; i > 0 && w->heap[(i - 1) / 4].at_us > e.at_us; i = (i - 1) / 4)
		w->heap[i] = w->heap[(i - 1) / 4];
	w->heap[i] = e;
}

bool next_event(struct world *w, struct event *ret)
{
	struct event last;
	size_t i = 0;

	if (w->n_heap == 0)
		return false;
	*ret = w->heap[0];
	last = w->heap[--w->n_heap];
	for (;;) {
		size_t least = 4 * i + 1, end = MIN(4 * i + 5, w->n_heap);

		if (least >= w->n_heap)
			break;
		for (size_t child = least + 1; child < end; child++) {
			if (w->heap[child].at_us < w->heap[least].at_us)
				least = child;
		}
		if (w->heap[least].at_us >= last.at_us)
			break;
		w->heap[i] = w->heap[least];
		i = least;
	}
	w->heap[i] = last;
	w->now_us = ret->at_us;
	return true;
}

/* A slot of a growing array: from its list of free ones, or behind the last. Slot 0 is none. */
#define SLOT_NEW(w, array, size, free_list)                                                        \
	({                                                                                         \
		uint32_t slot_ = (w)->free_list;                                                   \
		if (slot_) {                                                                       \
			(w)->free_list = (w)->array[slot_].next_free;                              \
		} else {                                                                           \
			slot_ = ++(w)->size;                                                       \
			if ((slot_ & (slot_ - 1)) == 0)                                            \
				(w)->array =                                                       \
					xrealloc((w)->array, sizeof(*(w)->array) * 2 * slot_);     \
		}                                                                                  \
		(w)->array[slot_] = (typeof(*(w)->array)){.stamp = ++(w)->stamp};                  \
		slot_;                                                                             \
	})

uint32_t box_new(struct world *w)
{
	return SLOT_NEW(w, boxes, n_boxes_size, free_box);
}

void box_free(struct world *w, uint32_t box)
{
	w->boxes[box].stamp = 0;
	w->boxes[box].next_free = w->free_box;
	w->free_box = box;
}

uint32_t create_new(struct world *w)
{
	return SLOT_NEW(w, creates, n_creates, free_create);
}

void create_free(struct world *w, uint32_t create)
{
	w->creates[create].stamp = 0;
	w->creates[create].next_free = w->free_create;
	w->free_create = create;
}

uint32_t call_new(struct world *w, uint32_t node, enum call_kind kind)
{
	uint32_t c = SLOT_NEW(w, calls, n_calls, free_call);

	w->calls[c].kind = kind;
	w->calls[c].node = node;
	w->calls[c].boot = w->nodes[node].boot;
	w->calls[c].epoch = w->nodes[node].fence.epoch;
	return c;
}

void call_unref(struct world *w, uint32_t call)
{
	if (--w->calls[call].refs > 0)
		return;
	w->calls[call].stamp = 0;
	w->calls[call].next_free = w->free_call;
	w->free_call = call;
}

uint64_t delay_us(struct world *w)
{
	uint64_t us = 300 + draw_below(w, 2000);

	if (w->o->has_faults && draw_below(w, w->o->late_of) == 0)
		us += draw_below(w, 9 * SECOND_US);
	return us;
}

/* The node waits for two seconds. What is sent then may still be done later. */
void call_send(struct world *w, uint32_t call)
{
	struct call *c = &w->calls[call];
	const struct node *n = &w->nodes[c->node];

	c->refs = 1;
	later(w, 2 * SECOND_US, EVENT_GIVE_UP, c->node, call, c->stamp);
	if (n->has_no_way_to)
		return;
	c->refs++;
	later(w, delay_us(w), EVENT_DATABASE, c->node, call, c->stamp);
}

void breaks(struct world *w, enum invariant what, const char *fmt, ...)
{
	va_list ap;

	if (world_broken(w->r) == 0) {
		int n = snprintf(w->r->first, sizeof(w->r->first),
		                 "%s at %.3f s: ", invariant_names[what], (double)w->now_us / 1e6);

		va_start(ap, fmt);
		(void)vsnprintf(w->r->first + n, sizeof(w->r->first) - (size_t)n, fmt, ap);
		va_end(ap);
	}
	w->r->broken[what]++;
}

uint64_t node_clock(const struct world *w, const struct node *n)
{
	return w->now_us + n->clock_offset_us +
	       (uint64_t)((int64_t)w->now_us / 1000000 * n->clock_ppm);
}

enum fence_state node_state(const struct world *w, const struct node *n)
{
	return fence_state(&n->fence, &w->o->fence, node_clock(w, n));
}
