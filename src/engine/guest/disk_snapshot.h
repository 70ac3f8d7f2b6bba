// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Snapshots: a layer as it was at one moment, from which other sandboxes start. They are beside the
 * layers, on the same btrfs:
 *
 *	DATA/layers/sn_…/files		read-only subvolume: a copy of the layer
 *	DATA/layers/sn_…/manifest	what it is (snapshot_manifest.h)
 *	DATA/layers/sn_…/spare/files	the next start's layer, made ahead (disk_snapshot_spare.c)
 *	DATA/layers/sn_….new		one that is being made
 *	DATA/layers/sn_….gone		one that is being removed
 *	DATA/layers/roll_…/files	a copy that is about to be a sandbox's layer, or the kept
 *					layer that it took the place of
 *
 * The last three are leftovers if a broker starts, which removes them. The directory is read once,
 * when the storage is opened; then the list is kept here.
 */
#include "engine/guest/guest.h"

void disk_snapshots_open(struct guest_host *host); /* reads what there is */
void disk_snapshots_close(struct guest_host *host);
void disk_snapshots_sweep(
	struct guest_host *host); /* what an earlier broker was in the middle of */

/* The calls of struct engine. */
must_check int disk_snapshot_take(struct guest_host *host, const char *id,
                                  const struct digest *image, const struct snapshot_spec *spec,
                                  snapshot_fn fn, void *arg, struct err *err);
must_check int disk_snapshot_discard(struct guest_host *host, const char *id, guest_gone_fn gone,
                                     void *arg);
void disk_snapshot_each(struct guest_host *host,
                        void (*fn)(const struct snapshot_info *info, void *arg), void *arg);

/* Makes the layer of g from the snapshot in its spec; done is called once, from the loop. 1: the
 * layer is ready, and done is not called. */
must_check int disk_snapshot_clone(struct guest *g,
                                   void (*done)(struct guest *g, const struct err *err),
                                   struct err *err);
/* The layer that disk_snapshot_clone() made. */
must_check int disk_snapshot_open_clone(const struct guest *g, int *ret_fd, struct err *err);

/* The files of a snapshot, as a layer's directory. image: the template that they must be over. */
must_check int disk_snapshot_open_files(struct guest_host *host, const char *id,
                                        const struct digest *image, int *ret_fd, struct err *err);
/* The memory in a snapshot (memory_image.h), as a directory. */
must_check int disk_snapshot_open_memory(struct guest_host *host, const char *id, int *ret_fd,
                                         struct err *err);

/* Freezes it, or lets it go on, for the gateway. */
must_check int disk_snapshot_freeze(struct guest *g, bool on, struct err *err);
void disk_snapshot_adopt(
	struct guest *g); /* lets it go on if a broker died while taking a snapshot of it */
void disk_snapshot_on_start(
	const struct guest *g);             /* it runs: another may be started from the same */
void disk_snapshot_on_end(struct guest *g); /* it ends: fails its pending snapshot */

/* The quota limit of a layer, so that the sandbox can use exactly its disk: bytes that a copy got
 * from its snapshot count, and bytes that only snapshots still have do not. A vm may rewrite its
 * whole disk, whatever it got from a snapshot. */
uint64_t disk_snapshot_limit(struct guest_host *host, const struct guest_spec *spec);
/* Fills in the two disk figures. */
void disk_snapshot_usage(struct guest_host *host, const char *id, struct guest_usage *ret);
