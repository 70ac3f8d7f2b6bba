// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * How fast a door is in one direction: a bucket of bytes that fills with time. Who wants to read
 * asks how much it may take, and says how much it took. Who may take nothing stands in line and is
 * called once there is something again; it had bytes to read then, so its turn is not wasted, and
 * the next time it stands behind all others.
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
/* Holds at once, also for who stands in line. */
void pace_set(struct pace *p, uint64_t per_second);

/* How many of the wanted bytes may be read now; 0: none. */
size_t pace_allow(struct pace *p, size_t wanted);
void pace_spend(struct pace *p, size_t n); /* they were read, allowed or not */

void pace_turn_init(struct pace_turn *t, void (*fn)(void *arg), void *arg);
void pace_wait(struct pace *p, struct pace_turn *t); /* calls fn once, from the loop */
bool pace_is_waiting(const struct pace_turn *t);
void pace_leave(struct pace_turn *t); /* twice is fine */
