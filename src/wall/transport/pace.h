// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Limits the speed of a door in one direction: a bucket of bytes that fills with time. A reader
 * asks how much it may take, and then says how much it took. A reader that may take nothing waits
 * in line and is called once there is something again. It has bytes to read, so its turn is not
 * wasted; the next time it is last in line.
 */
#include "base/list.h"
#include "loop/loop.h"

struct pace {
	struct loop *loop;
	uint64_t per_second; /* 0: as fast as can be */
	int64_t bytes;       /* that may pass now; below zero: more has passed */
	uint64_t at_us;      /* when that was so */
	struct list line;    /* struct pace_turn */
	struct loop_timer *timer;
};

struct pace_turn {
	struct list link;
	void (*fn)(void *arg);
	void *arg;
};

void pace_init(struct pace *p, struct loop *loop, uint64_t per_second);
void pace_done(struct pace *p); /* nobody may stand in line */
/* Takes effect at once, also for those that wait. */
void pace_set(struct pace *p, uint64_t per_second);

/* How many of the wanted bytes may be read now; 0: none. */
size_t pace_allow(struct pace *p, size_t wanted);
void pace_spend(struct pace *p, size_t n); /* they were read, allowed or not */

void pace_turn_init(struct pace_turn *t, void (*fn)(void *arg), void *arg);
void pace_wait(struct pace *p, struct pace_turn *t); /* calls fn once, from the loop */
bool pace_is_waiting(const struct pace_turn *t);
void pace_leave(struct pace_turn *t); /* twice is fine */
