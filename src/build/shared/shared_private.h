// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the files of this folder share.
 *
 *	shared_snapshots.c	finds what is to be sent, dropped, or reported as removed
 *	snapshot_send.c		sends a snapshot to the store
 *	snapshot_fetch.c	fetches one from the store
 *
 * The object of a snapshot is one file: SNAPSHOT_MAGIC, the length of a description as a
 * little-endian u32, the description (JSON: snapshot_describe()), and the bundle of its files.
 */
#include "build/build_private.h"
#include "build/shared/shared_snapshot.h"
#include "node/stored_snapshots.h"

#define SNAPSHOT_MAGIC      "cloche snapshot 1\n"
#define SNAPSHOT_MAGIC_SIZE ((size_t)18)
#define DESCRIPTION_MAX     ((size_t)20 << 20)

struct shared_snapshots {
	struct builds *owner;
	struct snapshot_send *send; /* under way; one at a time */
	struct list fetches, awaited, copies, removals;
	struct loop_timer *look;
	bool has_begun, is_telling, is_seeing;
	uint64_t see_us; /* steady: when it is asked again what has become of them */
	/* So many at a time: how many this pass has asked about, of which state of the database,
	 * and of which one a pass has come to its end. */
	size_t seen;
	uint32_t pass, passed;
	bool has_pass, has_passed, is_more;
	uint32_t told; /* of which state it was told that all is in the rows, and when */
	uint64_t told_us;
};

struct node *shared_snapshots_node(const struct shared_snapshots *s); /* NULL: alone */
void shared_snapshots_look_soon(struct shared_snapshots *s);

/* snapshot_send.c: what has come of it is told by the snapshot, and it looks again at its end. */
void snapshot_send_begin(struct shared_snapshots *s, struct snapshot *sn);
void snapshot_send_close(struct shared_snapshots *s);

/* snapshot_fetch.c */
void snapshot_fetches_close(struct shared_snapshots *s);
/* A copy has come: it is dropped after a while if nothing uses it. */
void shared_snapshots_keep_a_while(struct shared_snapshots *s, const struct snapshot *sn);
