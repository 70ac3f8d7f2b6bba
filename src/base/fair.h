// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A fair queue: whose turn it is among shares that all have something waiting. Deficit round robin,
 * where an item's cost may be charged after it was served, when it is known. No clock, no memory of
 * its own: items and shares are links inside their owners' objects.
 *
 * What holds:
 * - Shares that always have items are served in proportion to their weights.
 * - A share that has items is served, whatever the others do.
 * - While one share alone has items it is served without pause, and owes nothing for it.
 * - A share that comes with little goes before those that have used up their turn: a call now and
 *   then does not wait behind a flood.
 */
#include "base/list.h"

#include <stdint.h>

#define FAIR_WEIGHT 100 /* the usual weight */

struct fair_share {
	struct list link;  /* in the queue's ring, while it has items */
	struct list items; /* first come, first served */
	uint32_t weight;   /* from 1 on; may be changed at any time */
	int64_t credit;    /* what it may still use before it is the next one's turn */
};

struct fair_queue {
	struct list ring; /* of shares; the first is served */
	int64_t quantum;  /* credit a round for a share of the usual weight */
};

void fair_queue_init(struct fair_queue *q, int64_t quantum);
void fair_queue_done(struct fair_queue *q); /* its shares are in no ring any more */
void fair_share_init(struct fair_share *s, uint32_t weight);
/* Its items are on no list any more; the owner of them frees them. NULL is fine. */
void fair_share_done(struct fair_share *s);

void fair_push(struct fair_queue *q, struct fair_share *s, struct list *item);
/* Takes out the item whose turn it is, and tells whose it is; NULL: none waits. An item may also be
 * taken out of turn with list_remove(). */
struct list *fair_next(struct fair_queue *q, struct fair_share **ret);
/* What serving it has cost. */
void fair_charge(const struct fair_queue *q, struct fair_share *s, int64_t cost);
bool fair_has_items(const struct fair_queue *q);
