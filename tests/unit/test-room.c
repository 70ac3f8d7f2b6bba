// SPDX-License-Identifier: Apache-2.0
/* When the layers grow, by how much, and when the disk is full. What the kernel does with it is
 * shown by functional/test_host_disk_full.py on real disks. */
#include "base/units.h"
#include "test.h"

#include "engine/layer/room.h"

/* 100 GiB of disk, 50 of them free; the layers have 10, 5 of them free. */
static struct room_figures plenty(void)
{
	return (struct room_figures){.free = 50 * GIB,
	                             .reserve = GIB,
	                             .layers = 10 * GIB,
	                             .layers_free = 5 * GIB,
	                             .layers_unallocated = 3 * GIB,
	                             .headroom = 2 * GIB,
	                             .can_grow = true};
}

TEST(reserve_is_as_set_or_fits_the_disk)
{
	CHECK_INT(room_reserve(0, 100 * GIB), GIB);
	CHECK_INT(room_reserve(0, 2 * GIB), 2 * GIB / 20);
	CHECK_INT(room_reserve(7 * GIB, 100 * GIB), 7 * GIB);
	CHECK_INT(room_headroom(0, 100 * GIB), 2 * GIB);
	CHECK_INT(room_headroom(0, GIB), 128 * MIB);
	CHECK_INT(room_headroom(512 * MIB, 100 * GIB), 512 * MIB);
	CHECK_INT(room_headroom(1, 100 * GIB), 128 * MIB);
}

TEST(layers_grow_in_steps_when_their_headroom_shrinks)
{
	struct room_figures f = plenty();

	CHECK_INT(room_growth(&f), 0);
	f.layers_free = 2 * GIB - 1;
	CHECK_INT(room_growth(&f), 256 * MIB);
	f.layers_free = 0;
	CHECK_INT(room_growth(&f), 2 * GIB);
	f = plenty();
	f.layers_unallocated = 0; /* metadata has no place for its next chunk */
	CHECK_INT(room_growth(&f), 512 * MIB);
	f.can_grow = false;
	CHECK_INT(room_growth(&f), 0);
}

TEST(layers_never_grow_into_the_reserve)
{
	struct room_figures f = plenty();

	f.layers_free = 0;
	f.free = 2 * GIB;
	CHECK_INT(room_growth(&f), 768 * MIB); /* a quarter of the reserve is left beside it */
	f.missing = 512 * MIB;
	CHECK_INT(room_growth(&f), 256 * MIB);
	f.free = GIB + GIB / 4;
	CHECK_INT(room_growth(&f), 0);
	f.free = 0;
	CHECK_INT(room_growth(&f), 0);
}

TEST(disk_is_full_when_others_took_from_the_reserve)
{
	struct room_figures f = plenty();

	CHECK_INT(room_judge(&f, DISK_OK), DISK_OK);
	f.free = GIB;
	CHECK_INT(room_judge(&f, DISK_OK), DISK_OK);
	CHECK_INT(room_judge(&f, DISK_FULL),
	          DISK_FULL); /* once it is full, a little more is not enough */
	f.free = GIB - 1;
	CHECK_INT(room_judge(&f, DISK_OK), DISK_FULL);
	f.free = GIB + GIB / 8;
	CHECK_INT(room_judge(&f, DISK_FULL), DISK_OK);
	f.missing = 1; /* the layers count on that already */
	CHECK_INT(room_judge(&f, DISK_FULL), DISK_FULL);
}

TEST(disk_is_full_when_the_layers_are_and_cannot_grow)
{
	struct room_figures f = plenty();

	f.layers_free = 63 * MIB;
	CHECK_INT(room_judge(&f, DISK_OK), DISK_OK); /* they will */
	f.free = GIB + GIB / 4;
	CHECK_INT(room_judge(&f, DISK_OK), DISK_FULL);
	f.layers_free = 80 * MIB;
	CHECK_INT(room_judge(&f, DISK_FULL), DISK_OK);
}

TEST(read_only_is_worse_than_full)
{
	struct room_figures f = plenty();

	f.free = 0;
	f.is_read_only = true;
	CHECK_INT(room_judge(&f, DISK_FULL), DISK_READ_ONLY);
	f = plenty();
	f.layers_free = 0;
	f.is_read_only = true;
	CHECK_INT(room_growth(&f), 0);
}

TEST(the_reserve_s_file_is_given_up_when_somebody_filled_the_disk)
{
	struct room_figures f = plenty();

	CHECK_INT(room_to_hold(&f), 512 * MIB);
	f.held = 512 * MIB;
	f.free = GIB;
	CHECK_INT(room_to_hold(&f), 512 * MIB);
	f.free = 512 * MIB + 100 * MIB;
	CHECK_INT(room_to_hold(&f), 0);
	f.held = 0; /* not made again of the last that there is */
	f.free = GIB;
	CHECK_INT(room_to_hold(&f), 0);
	f.free = 2 * GIB;
	CHECK_INT(room_to_hold(&f), 512 * MIB);
}
