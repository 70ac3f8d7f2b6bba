// SPDX-License-Identifier: Apache-2.0
#include "base/fair_room.h"

#include "base/id.h"

#include <stdio.h>
#include <uthash.h>

struct fair_room_part {
	char owner[ID_SIZE];
	size_t used;
	UT_hash_handle hh;
};

static struct fair_room_part *find(const struct fair_room *room, const char *owner)
{
	struct fair_room_part *part;

	HASH_FIND_STR(room->parts, owner, part);
	return part;
}

static struct fair_room_part *find_or_add(struct fair_room *room, const char *owner)
{
	struct fair_room_part *part = find(room, owner);

	if (part)
		return part;
	part = xnew0(struct fair_room_part);
	(void)snprintf(part->owner, sizeof(part->owner), "%s", owner);
	HASH_ADD_STR(room->parts, owner, part);
	return part;
}

void fair_room_done(struct fair_room *room)
{
	struct fair_room_part *part, *next;

	HASH_ITER (hh, room->parts, part, next) {
		HASH_DEL(room->parts, part);
		free(part);
	}
	room->used = 0;
}

size_t fair_room_left(const struct fair_room *room, const char *owner)
{
	const struct fair_room_part *part = find(room, owner);
	size_t own = part ? part->used : 0;
	size_t of_all = room->most > room->used ? room->most - room->used : 0;

	return MAX(of_all, room->always > own ? room->always - own : 0);
}

bool fair_room_take(struct fair_room *room, const char *owner, size_t n)
{
	if (n > fair_room_left(room, owner))
		return false;
	if (n > 0) {
		find_or_add(room, owner)->used += n;
		room->used += n;
	}
	return true;
}

void fair_room_give(struct fair_room *room, const char *owner, size_t n)
{
	struct fair_room_part *part = find(room, owner);

	if (n == 0)
		return;
	if (!part || part->used < n || room->used < n)
		abort(); /* nobody gives back more than it took */
	part->used -= n;
	room->used -= n;
	if (part->used == 0) {
		HASH_DEL(room->parts, part);
		free(part);
	}
}
