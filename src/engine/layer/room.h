// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Watches the disk that the layers share with the daemon's own files (database, output, templates):
 * has the layers' filesystem grow ahead of its use (backing.h), keeps a reserve out of its reach,
 * and knows whether new work may begin.
 *
 *	the disk:	| ours | layers, as allocated |  free  . . . . . .  |  reserve  |
 *	                                        grows ---->		    ^ never beyond
 *
 *	ok --> full		others took from the reserve, or the layers are full and cannot grow
 *	full --> ok		there is an eighth more than the reserve again
 *	any --> read only	the layers' filesystem gave up; a start mounts it anew (storage.c)
 *
 * Others of the host know nothing of a reserve. Half of it is a file, DATA/reserve, that is given
 * up when somebody has filled the disk: so that the database can be written, and what runs goes
 * on. It is made again when there is room.
 *
 * While it is full nothing new begins; what runs goes on, in what the layers have by then. A look
 * is two system calls or three, every half second. Growing takes a transaction of btrfs, so a child
 * does it, one at a time; it begins while HEADROOM is left, which has to last until it is done.
 *
 * Where the data directory is on a btrfs of its own, or storage is plain, the layers are beside our
 * own files and nothing stands between them but what is checked before new work begins.
 */
#include "engine/engine.h"
#include "engine/layer/storage.h"

/* What one look finds. */
struct room_figures {
	uint64_t free, reserve; /* of the disk; free with what the file of the reserve holds */
	uint64_t held;          /* that */
	uint64_t missing;       /* of the layers' file: what they count on and have not got yet */
	uint64_t layers, layers_free, layers_unallocated;
	uint64_t headroom;
	bool can_grow, is_read_only;
};

/* How much the reserve's file should hold now. */
uint64_t room_to_hold(const struct room_figures *f);

/* By how much the layers' filesystem should grow now; 0: it should not, or cannot. */
uint64_t room_growth(const struct room_figures *f);
enum disk_state room_judge(const struct room_figures *f, enum disk_state before);

uint64_t room_reserve(uint64_t wanted, uint64_t disk_bytes); /* wanted 0: by the disk's size */
uint64_t room_headroom(uint64_t disk_bytes);

struct room {
	const struct storage *storage;
	struct loop *loop;
	struct loop_timer *timer;
	struct loop_child *child;   /* that grows or fits the file, or NULL */
	bool is_fitting, is_fitted; /* once since the start */
	bool cannot_allocate;
	int held_fd; /* the reserve's file, or -1 */
	uint64_t reserve_wanted;
	uint64_t looked_us, told_us, next_try_us;
	struct host_disk now, told;
	void (*changed)(const struct host_disk *disk, void *arg);
	void *arg;
};

/* reserve 0: by the disk's size. */
void room_open(struct room *room, const struct storage *storage, struct loop *loop,
               uint64_t reserve, void (*changed)(const struct host_disk *disk, void *arg),
               void *arg);
void room_close(struct room *room); /* zeros are fine */
void room_get(struct room *room, struct host_disk *ret);
