// SPDX-License-Identifier: Apache-2.0
#include "cluster/lease.h"

#include <assert.h>

static uint64_t unspent(const struct lease *l)
{
	return l->amount > l->spent ? l->amount - l->spent : 0;
}

static void note_idle(struct lease *l)
{
	l->idle_amount = MIN(l->idle_amount, unspent(l));
}

int lease_take(struct lease *l, uint64_t n)
{
	if (n > unspent(l))
		return -EAGAIN;
	l->spent += n;
	note_idle(l);
	return 0;
}

void lease_give(struct lease *l, uint64_t n)
{
	assert(n <= l->spent);
	l->spent -= n;
}

void lease_force(struct lease *l, uint64_t n)
{
	l->spent += n;
	note_idle(l);
}

uint64_t lease_borrowed(const struct lease *l)
{
	return l->spent > l->amount ? l->spent - l->amount : 0;
}

void lease_want(struct lease *l, uint64_t n)
{
	l->missing += n;
}

void lease_recall(struct lease *l)
{
	l->is_recalled = true;
}

/* How much is to go back now. */
static uint64_t surplus(struct lease *l, uint64_t now_us)
{
	uint64_t less = 0;

	if (now_us - l->idle_since_us >= LEASE_IDLE_US) {
		less = l->idle_amount;
		l->idle_amount = unspent(l) - less;
		l->idle_since_us = now_us;
	}
	if (l->is_recalled)
		less = unspent(l);
	l->is_recalled = false;
	return less;
}

bool lease_next(struct lease *l, uint64_t now_us, struct lease_call *ret)
{
	uint64_t needed = l->spent + l->missing;

	if (l->is_calling)
		return false;
	*ret = (struct lease_call){.total = l->amount, .least = l->amount};
	if (needed > l->amount) {
		ret->least = needed;
		ret->total = needed + needed / LEASE_AHEAD_SHARE;
	} else {
		uint64_t less = surplus(l, now_us);

		if (less == 0 && !l->is_unsure)
			return false;
		l->amount -= less;
		note_idle(l);
		ret->total = ret->least = l->amount;
	}
	ret->number = ++l->number;
	l->is_calling = true;
	return true;
}

bool lease_answered(struct lease *l, uint64_t number, uint64_t total)
{
	if (!l->is_calling || number != l->number)
		return false;
	l->is_calling = l->is_unsure = false;
	l->amount = total;
	l->missing = 0;
	note_idle(l);
	return true;
}

void lease_joined(struct lease *l, uint64_t total)
{
	*l = (struct lease){.amount = total, .spent = l->spent, .idle_since_us = l->idle_since_us};
}

uint64_t lease_own(struct lease *l)
{
	l->is_calling = true;
	return ++l->number;
}

void lease_failed(struct lease *l, uint64_t number)
{
	if (!l->is_calling || number != l->number)
		return;
	l->is_calling = false;
	l->is_unsure = true;
	l->missing = 0;
}
