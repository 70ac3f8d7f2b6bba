// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Watches the disk that the layers share with the daemon's own files (database, output, templates).
 * It grows the layers' filesystem ahead of its use (backing.h), keeps a reserve that the layers
 * cannot use, and knows whether new work may start.
 *
 *	the disk:	| ours | layers, as allocated |  free  . . . . . .  |  reserve  |
 *	                                        grows ---->		    ^ never beyond
 *
 *	ok --> full		others took from the reserve, or the layers are full and cannot grow
 *	full --> ok		there is an eighth more than the reserve again
 *	any --> read only	the layers' filesystem gave up; a start mounts it anew (storage.c)
 *
 * Other programs of the host do not know the reserve. Half of it is a file, DATA/reserve, which is
 * removed when somebody has filled the disk, so that the database can be written and running
 * sandboxes go on. It is made again when there is room.
 *
 * While the disk is full nothing new starts; running sandboxes go on with the space that the layers
 * have. A look is some ten system calls, every half second. Growing takes a btrfs transaction,
 * so a child does it, one at a time; it starts while HEADROOM is left, which has to last until it
 * is done.
 *
 * If the data directory is itself on btrfs, or storage is plain, the layers share the filesystem
 * with our own files, and only the check before new work protects those.
 */
#include "engine/engine.h"
#include "engine/layer/storage.h"

/* The figures of one look. */
struct room_figures {
	uint64_t free, reserve; /* of the disk; free with what the file of the reserve holds */
	uint64_t held;          /* that */
	uint64_t missing;       /* of the layers' file: bytes that are not allocated yet */
	uint64_t layers, layers_free, layers_unallocated;
	uint64_t headroom;
	bool can_grow, is_read_only;
};

/* How much the reserve's file should hold now. */
uint64_t room_to_hold(const struct room_figures *f);

/* By how much the layers' filesystem should grow now; 0: it should not, or cannot. */
uint64_t room_growth(const struct room_figures *f);
enum disk_state room_judge(const struct room_figures *f, enum disk_state before);

uint64_t room_reserve(uint64_t wanted, uint64_t disk_bytes);  /* wanted 0: by the disk's size */
uint64_t room_headroom(uint64_t wanted, uint64_t disk_bytes); /* likewise */

struct room {
	const struct storage *storage;
	struct loop *loop;
	struct loop_timer *timer;
	struct loop_child *child;   /* that grows or fits the file, or NULL */
	bool is_fitting, is_fitted; /* once since the start */
	bool cannot_allocate;
	int held_fd; /* the reserve's file, or -1 */
	uint64_t reserve_wanted, headroom_wanted;
	uint64_t looked_us, told_us, next_try_us;
	struct host_disk now, told;
	void (*changed)(const struct host_disk *disk, void *arg);
	void *arg;
};

/* reserve, headroom 0: by the disk's size. */
void room_open(struct room *room, const struct storage *storage, struct loop *loop,
               uint64_t reserve, uint64_t headroom,
               void (*changed)(const struct host_disk *disk, void *arg), void *arg);
void room_close(struct room *room); /* zeros are fine */
void room_get(struct room *room, struct host_disk *ret);
