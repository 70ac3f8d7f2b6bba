// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Room that several owners share: places in a table, or bytes of memory. All have a bound together;
 * beyond that each owner still gets a little, so that nobody is kept out by what others hold.
 *
 * What holds:
 * - Whoever holds no more than `always` after it has taken gets it, whatever the others hold.
 * - Nobody gets more than that once `most` is taken.
 * - So all hold at most `most`, and `always` for each owner beside it.
 *
 * No clock; memory for each owner that holds something, and for no other.
 */
#include "base/auto.h"

#include <stdbool.h>
#include <stddef.h>

struct fair_room_part;
struct fair_room {
	size_t most, always;
	size_t used;                  /* by all */
	struct fair_room_part *parts; /* of owners that hold something */
};

void fair_room_done(struct fair_room *room); /* what is held is forgotten */
/* How much an owner could take now. */
size_t fair_room_left(const struct fair_room *room, const char *owner);
/* False: there is not so much, and nothing is taken. */
must_check bool fair_room_take(struct fair_room *room, const char *owner, size_t n);
/* What was taken, or a part of it. */
void fair_room_give(struct fair_room *room, const char *owner, size_t n);
