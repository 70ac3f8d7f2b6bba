// SPDX-License-Identifier: Apache-2.0
/* Room that owners share: nobody is kept out by what others hold. By chance, against a plain model.
 */
#include "base/fair_room.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#define OWNERS 7
#define STEPS  200000

static size_t held[OWNERS]; /* the model */

static const char *name(size_t i)
{
	static char text[16];

	(void)snprintf(text, sizeof(text), "prj_%zu", i);
	return text;
}

static size_t sum(void)
{
	size_t n = 0;

	for (size_t i = 0; i < OWNERS; i++)
		n += held[i];
	return n;
}

static void one_step(struct fair_room *room, unsigned *seed)
{
	size_t i = (size_t)rand_r(seed) % OWNERS, n = (size_t)rand_r(seed) % (room->always * 2 + 2);
	size_t before = sum();

	if (rand_r(seed) % 3 == 0) {
		n = MIN(n, held[i]);
		fair_room_give(room, name(i), n);
		held[i] -= n;
	} else if (fair_room_take(room, name(i), n)) {
		held[i] += n;
		CHECK(n == 0 || before + n <= room->most || held[i] <= room->always);
	} else {
		CHECK(before + n > room->most && held[i] + n > room->always);
	}
	CHECK(room->used == sum());
	CHECK(room->used <= room->most + OWNERS * room->always);
}

TEST(nobody_is_kept_out_by_what_others_hold)
{
	for (unsigned run = 0; run < 20; run++) {
		struct fair_room room = {.most = run * 5, .always = run % 4 + (run % 2) * 40};
		unsigned seed = run;

		memset(held, 0, sizeof(held));
		for (int i = 0; i < STEPS / 20; i++)
			one_step(&room, &seed);
		fair_room_done(&room);
	}
}

TEST(who_holds_nothing_costs_no_memory)
{
	struct fair_room room = {.most = 4, .always = 1};

	CHECK(fair_room_take(&room, "a", 0));
	CHECK(!room.parts);
	CHECK(fair_room_take(&room, "a", 4));
	CHECK(fair_room_left(&room, "a") == 0);
	CHECK(fair_room_left(&room, "b") == 1);
	CHECK(!fair_room_take(&room, "b", 2));
	fair_room_give(&room, "a", 4);
	CHECK(!room.parts);
}
