// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Children of the broker's that nobody watches. CRIU makes the first process of a copy a child of
 * the broker before it tells its number. When CRIU ends in between, that process is killed with the
 * control groups of its guest, and nobody knows that it is to be reaped.
 */
#include "loop/loop.h"

#include <sys/types.h>

struct unknown_children { /* zeros are fine */
	struct loop_timer *timer;
	pid_t seen; /* dead at the last look */
	uint64_t until_us;
};

/* One may be there, or come within a minute: it is reaped. */
void unknown_children_expect(struct unknown_children *u, struct loop *loop);
void unknown_children_done(struct unknown_children *u);
