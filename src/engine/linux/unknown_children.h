// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Children of the broker that nobody watches. CRIU makes the first process of a copy as a child of
 * the broker before it reports its pid. If CRIU ends in between, that process is killed with its
 * guest's control groups, but nobody knows that it must be reaped.
 */
#include "loop/loop.h"

#include <sys/types.h>

struct unknown_children { /* zeros are fine */
	struct loop_timer *timer;
	pid_t seen; /* dead at the last look */
	uint64_t until_us;
};

/* Reaps such a child if there is one now or within a minute. */
void unknown_children_expect(struct unknown_children *u, struct loop *loop);
void unknown_children_done(struct unknown_children *u);
