// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The layer of a sandbox that starts from a snapshot, copied by a child that costs little.
 *
 * The copy waits for a transaction of the filesystem, so a child makes it. A fork of the broker for
 * that took about a tenth of the CPU time of a sandbox's fork: page tables are copied and torn down
 * again, and the broker's own pages are copied as it writes to them meanwhile. This child shares
 * the broker's memory, as that of a removal does (engine/linux/btrfs_removal.h), and makes only
 * system calls whose arguments were prepared for it. It ends with the broker.
 */
#include "engine/layer/below.h"

#include "base/auto.h"

struct layer_copy {
	int layers_fd;     /* the directory of all layers */
	int files_fd;      /* the snapshot's subvolume */
	const char *place; /* a new directory of layers_fd, in which the copy is made */
	const char *name;  /* what it is called there meanwhile */
	const char *id;    /* of the sandbox: its layer's name, which nobody has yet */
	struct disk_snapshot_below below;
};

/* What a child ends with whose copy has work directories that are not empty: it is to be made in
 * another way. */
#define LAYER_COPY_UNTIDY ENOTEMPTY

/* Returns 1: *ret_pidfd is the child, whose exit status is 0 or an errno. After a failure it may
 * have left the place behind, with the copy in it. 0: many copies are under way, and nothing was
 * begun. For the main thread only; *c is copied. */
must_check int layer_copy_start(const struct layer_copy *c, int *ret_pidfd);
