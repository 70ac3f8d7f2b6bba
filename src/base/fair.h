// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A fair queue: decides which of several shares is served next. It is deficit round robin, but an
 * item's cost may be charged after it was served, when the cost is known. It has no clock and
 * allocates nothing: items and shares are links inside their owners' objects.
 *
 * What holds:
 * - Shares that always have items are served in proportion to their weights.
 * - A share that has items is served, whatever the others do.
 * - While only one share has items, it is served without pause and owes nothing for it.
 * - A share with few items goes before shares that have used up their turn: an occasional call does
 *   not wait behind a flood.
 */
#include "base/list.h"

#include <stdint.h>

#define FAIR_WEIGHT 100 /* the usual weight */

struct fair_share {
	struct list link;  /* in the queue's ring, while it has items */
	struct list items; /* first come, first served */
	uint32_t weight;   /* from 1 on; may be changed at any time */
	int64_t credit;    /* what it may still use before the next share's turn */
};

struct fair_queue {
	struct list ring; /* of shares; the first is served */
	int64_t quantum;  /* credit a round for a share of the usual weight */
};

void fair_queue_init(struct fair_queue *q, int64_t quantum);
void fair_queue_done(struct fair_queue *q); /* its shares are then in no ring */
void fair_share_init(struct fair_share *s, uint32_t weight);
/* Its items are then on no list; their owner frees them. NULL is fine. */
void fair_share_done(struct fair_share *s);

void fair_push(struct fair_queue *q, struct fair_share *s, struct list *item);
/* Takes out the next item, and gives its share in *ret. NULL if no item waits. An item may also be
 * taken out of turn with list_remove(). */
struct list *fair_next(struct fair_queue *q, struct fair_share **ret);
/* Puts back an item that fair_next() gave: it is the first of its share again. */
void fair_put_back(struct fair_share *s, struct list *item);
/* Takes a share out of the turns, with its items, until fair_bring_back(): its next item cannot be
 * served now, and those of others may. aside is the caller's list. */
void fair_set_aside(struct fair_share *s, struct list *aside);
/* All that were set aside come before the others, in their order, and keep their credit. */
void fair_bring_back(struct fair_queue *q, struct list *aside);
/* Charges the share for what serving its item has cost. */
void fair_charge(const struct fair_queue *q, struct fair_share *s, int64_t cost);
bool fair_has_items(const struct fair_queue *q);
