// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A lease: the part of one quota of one project that a node has taken, and out of which it admits
 * creates without asking anybody. This is the node's side; the database has the row with the
 * amount, under the lock of the quota's row, so that the sum of all leases never exceeds the limit.
 *
 * What is spent here ≤ the amount known here ≤ the amount in the database: every error, and every
 * message that is lost or late, admits less than could be, never more. Three rules keep it so:
 *
 *	- A call says the whole amount that this node wants to have, not a difference: said twice it
 *	  does no more than once.
 *	- More is had when the answer says so; less from before the call is sent.
 *	- Calls are numbered, and the database refuses a number that is not above the last one it
 *	  took. Else a late call to have less could undo a later answer that has granted more.
 *
 * What is not needed for LEASE_IDLE_US goes back. It goes back at once if the database asks for it,
 * because another node found nothing left. A node that is lost (fence.h) has ended its sandboxes
 * before its leases are given to others.
 */
#include "base/auto.h"

#include <stdbool.h>
#include <stdint.h>

#define LEASE_IDLE_US     UINT64_C(30000000)
#define LEASE_AHEAD_SHARE 8 /* a call asks for an eighth of what is spent besides */

struct lease {
	uint64_t amount; /* known to be ours */
	uint64_t spent;
	uint64_t missing;     /* what creates that wait for more would spend */
	uint64_t number;      /* of the newest call */
	uint64_t idle_amount; /* the least that was unspent since idle_since_us */
	uint64_t idle_since_us;
	bool is_calling;
	bool is_unsure;   /* a call had no answer: the database may have more for us than we know */
	bool is_recalled; /* the database wants what is not spent */
};

struct lease_call {
	uint64_t number;
	uint64_t total; /* what the node wants to have in all */
	uint64_t least; /* what it needs: between the two the database may give less */
};

/* Spends. -EAGAIN: more than is unspent; nothing was spent, and lease_want() may get more. */
must_check int lease_take(struct lease *l, uint64_t n);
void lease_give(struct lease *l, uint64_t n); /* it has ended */
/* For something that exists already: spends what the node has not got, too. It is borrowed, and
 * nothing is admitted until it is covered. */
void lease_force(struct lease *l, uint64_t n);
uint64_t lease_borrowed(const struct lease *l);
void lease_want(struct lease *l, uint64_t n); /* a create waits for so much */
void lease_recall(struct lease *l);

/* Whether a call is to be made now; then it is under way until one of the next two. */
bool lease_next(struct lease *l, uint64_t now_us, struct lease_call *ret);
/* The node has joined anew and the database has told what it has: what was under way is void, and
 * numbers begin again. */
void lease_joined(struct lease *l, uint64_t total);
/* The database has answered with the whole amount. All that waited must try again: what was wanted
 * counts no more. False: the answer is an old one's and says nothing. */
bool lease_answered(struct lease *l, uint64_t number, uint64_t total);
/* Another call changes the row, such as taking a sandbox over with its quota: the number that it
 * has to be made with. It takes the place of one that is under way, and ends as that would. */
uint64_t lease_own(struct lease *l);
void lease_failed(struct lease *l, uint64_t number); /* no answer, or none that we understand */
