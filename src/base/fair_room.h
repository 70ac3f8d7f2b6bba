// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Room that several owners share: places in a table, or bytes of memory. They have one common
 * bound. Beyond it each owner still gets a little, so that no owner is kept out by what the others
 * hold.
 *
 * What holds:
 * - An owner can always take until it holds `always`, whatever the others hold.
 * - Once `most` is taken in all, no owner gets beyond `always`.
 * - So all owners together hold at most `most`, plus `always` for each of them.
 *
 * It has no clock, and memory only for owners that hold something.
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

void fair_room_done(struct fair_room *room); /* forgets what is held */
/* How much an owner could take now. */
size_t fair_room_left(const struct fair_room *room, const char *owner);
/* False if there is not enough room; then nothing is taken. */
must_check bool fair_room_take(struct fair_room *room, const char *owner, size_t n);
/* Gives back what was taken, or a part of it. */
void fair_room_give(struct fair_room *room, const char *owner, size_t n);
