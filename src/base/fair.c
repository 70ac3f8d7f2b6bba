// SPDX-License-Identifier: Apache-2.0
/*
 * A share gets new credit, a quantum by its weight, only when it reaches the front of the ring with
 * none left; then it goes to the back. So a share gains nothing by leaving and coming back. A share
 * that comes back enters at the front if it has credit left, else at the back.
 *
 * A share that is alone in the ring starts with a fresh quantum: what it used while nobody else
 * waited is not held against it. Debt is bounded, so one very costly item does not shut its share
 * out for long.
 */
#include "base/fair.h"

#define DEBT_QUANTA 16

static int64_t quantum_of(const struct fair_queue *q, const struct fair_share *s)
{
	return MAX(q->quantum * s->weight / FAIR_WEIGHT, (int64_t)1);
}

void fair_queue_init(struct fair_queue *q, int64_t quantum)
{
	list_init(&q->ring);
	q->quantum = quantum;
}

void fair_queue_done(struct fair_queue *q)
{
	while (!list_empty(&q->ring))
		list_remove(q->ring.next);
}

void fair_share_init(struct fair_share *s, uint32_t weight)
{
	list_init(&s->link);
	list_init(&s->items);
	s->weight = weight;
	s->credit = 0;
}

void fair_share_done(struct fair_share *s)
{
	if (!s)
		return;
	list_remove(&s->link);
	while (!list_empty(&s->items))
		list_remove(s->items.next);
}

static void go_to_front(struct fair_queue *q, struct fair_share *s)
{
	list_remove(&s->link);
	list_append(q->ring.next, &s->link); /* before the first */
}

static void go_to_back(struct fair_queue *q, struct fair_share *s)
{
	list_remove(&s->link);
	list_append(&q->ring, &s->link);
}

void fair_push(struct fair_queue *q, struct fair_share *s, struct list *item)
{
	list_append(&s->items, item);
	if (!list_empty(&s->link))
		return;
	if (list_empty(&q->ring))
		s->credit = quantum_of(q, s);
	if (s->credit > 0)
		go_to_front(q, s);
	else
		go_to_back(q, s);
}

/* For the first share in the ring, when it has no credit left or no items. */
static void pass_on(struct fair_queue *q, struct fair_share *s)
{
	if (list_empty(&s->items)) {
		list_remove(&s->link);
		return;
	}
	s->credit += quantum_of(q, s);
	go_to_back(q, s);
}

struct list *fair_next(struct fair_queue *q, struct fair_share **ret)
{
	struct fair_share *s;
	struct list *item;

	while ((s = list_first(&q->ring, struct fair_share, link))) {
		if (list_empty(&s->items) || s->credit <= 0) {
			pass_on(q, s);
			continue;
		}
		item = s->items.next;
		list_remove(item);
		*ret = s;
		return item;
	}
	return NULL;
}

void fair_put_back(struct fair_share *s, struct list *item)
{
	list_append(s->items.next, item); /* before the first */
}

void fair_set_aside(struct fair_share *s, struct list *aside)
{
	list_remove(&s->link);
	list_append(aside, &s->link);
}

void fair_bring_back(struct fair_queue *q, struct list *aside)
{
	while (!list_empty(aside))
		go_to_front(q, list_entry(aside->prev, struct fair_share, link));
}

void fair_charge(const struct fair_queue *q, struct fair_share *s, int64_t cost)
{
	s->credit = MAX(s->credit - cost, -DEBT_QUANTA * quantum_of(q, s));
}

bool fair_has_items(const struct fair_queue *q)
{
	list_for_each (&q->ring, const struct fair_share, s, link)
		if (!list_empty(&s->items))
			return true;
	return false;
}
