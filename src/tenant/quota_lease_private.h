// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What quota_lease.c and quota_rate.c share. */
#include "tenant/quota_lease.h"
#include "tenant/quota_private.h"

/* Those that are held, and the budget of a month: what is spent of that is what was used, and what
 * could be until the next check. */
#define PART_BUDGET QUOTA_HELD_COUNT
#define PART_COUNT  (QUOTA_HELD_COUNT + 1)
#define NAME_SIZE   24

struct part {
	struct lease lease;
	uint64_t asked;                      /* in all, by the call under way */
	uint64_t least;                      /* that it needs */
	uint64_t lack_since_us, answered_us; /* 0: none */
	uint64_t told_spent;
	uint64_t limit, leased, used; /* of all nodes, at answered_us */
};

struct rate {
	uint64_t bought, bought_us;
	uint64_t missing;
	uint64_t wait_until_us; /* before that there is none; UINT64_MAX: never */
	bool is_calling;
};

struct account_leases {
	struct list link; /* in the quota's leased */
	struct account *account;
	struct part of[PART_COUNT];
	int32_t month; /* that the budget's lease is of */
	struct rate rate;
};

void quota_put_refusal(const struct account *a, enum quota_what what, uint64_t limit,
                       uint64_t current, struct err *err);
/* quota_rate.c: whether one was bought; if not, one is asked for. */
must_check int quota_rate_check(const struct quota *q, const struct account *a, struct rate *r,
                                struct err *err);
