// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Snapshots that outlive their node. In a cluster that keeps objects, a snapshot's files are sent
 * to the store after the client has its answer, and then a row to the database. From then on the
 * snapshot is durable, and any node can start from it.
 *
 *	send	view of its files ─► bundle ─► broker: hash, seal ─► store ─► row
 *	fetch	row ─► broker: seal, room, empty file ─► store ─► broker: hash ─► the agent of a new
 *		sandbox unpacks it ─► a snapshot of this node with the same id
 *
 * A vm's snapshot travels as files, too, as a vm reads them; its disk image does not. Memory does
 * not travel. The image of the template is sent with the first snapshot that needs it.
 *
 * A generation of a sandbox is such a snapshot: snapshot_take() with is_automatic, then
 * shared_snapshot_await(). Snapshots that clients ask for are sent by themselves; automatic ones
 * only if somebody awaits them. One is sent at a time; a failure is tried again until the snapshot
 * is removed.
 *
 * All of it is on the loop's thread. A machine that is alone has none of it.
 */
#include "build/build.h"
#include "sandbox/snapshot/snapshot.h"
#include "sandbox/storage/shared_template.h"

#define SHARED_SNAPSHOT_WITH_MAX ((size_t)256 << 10)

struct shared_snapshot_id { /* borrowed for the call */
	const char *project_id, *snapshot_id;
	const char *source_id; /* the sandbox that it must be of: the seal says so; NULL: of any */
};

/*
 * Until the snapshot, which is here, is durable: its objects and its row are there. 0: it is
 * already. 1: w->fn is called, from the loop. w is zero but for fn and arg; shared_wait_remove()
 * takes it back.
 *
 * with: something of the caller's that goes along, encrypted in the store like the files, at most
 * SHARED_SNAPSHOT_WITH_MAX as text; or NULL. Who fetches the snapshot finds it by
 * snapshot_companion(). It has to be there before the snapshot is sent: with the first call, right
 * behind snapshot_take().
 *
 * An automatic snapshot that is awaited is kept until it is removed, also if nothing uses it.
 *
 * While the store or the database is away it is tried again, also by the next gateway, as long as
 * the snapshot exists; fn is not called for that. fn gets an error if another try is useless: the
 * snapshot was removed, the cluster keeps no objects, or the project is gone.
 */
must_check int shared_snapshot_await(struct builds *bs, const struct shared_snapshot_id *ref,
                                     const json_t *with, struct shared_wait *w, struct err *err);

/*
 * Until a durable snapshot of the project is on this node, whoever has made it; then
 * snapshot_find() has it, and sandbox_create() makes a sandbox from it as from any other. 0: it is
 * here. 1: w->fn is called; it is fetched once however many wait. The copy is removed with the last
 * sandbox that was started from it, or after some minutes if none was; what is stored stays.
 *
 * ERR_NOT_FOUND: the database has no such snapshot of this project, or it is of another sandbox.
 * ERR_CONFLICT: its seal or its bytes are not what was sealed. ERR_HOST_DISK_FULL, ERR_LIMIT,
 * ERR_CAPACITY: no room here. ERR_CLUSTER, ERR_UNAVAILABLE: database or store are away.
 *
 * may_come: it is not here, is named by an id, and this node is in a cluster.
 */
bool shared_snapshot_may_come(struct builds *bs, const struct shared_snapshot_id *ref);
must_check int shared_snapshot_fetch(struct builds *bs, const struct shared_snapshot_id *ref,
                                     struct shared_wait *w, struct err *err);

/*
 * Removes a durable snapshot that need not be here: its row goes, and the chunks that nothing else
 * needs follow later. fn once, from the loop, when the database has said so, or why not; one that
 * does not exist is fine. For a snapshot that is here, snapshot_remove() does the same, and goes on
 * trying by itself.
 */
void shared_snapshot_remove(struct builds *bs, const struct shared_snapshot_id *ref,
                            void (*fn)(const struct err *err, void *arg), void *arg);
