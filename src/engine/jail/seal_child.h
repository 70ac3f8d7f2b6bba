// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The sealer's child: from the spawner's clone3() to the exec of mkfs.erofs. What it reads was
 *written by a sandbox, so it is jailed like one:
 *
 *	user namespace	its own, with a range of ids that no sandbox has
 *	root		a small tmpfs; in it, read-only, the host's programs and the tree, and one
 *			directory of the host for the image
 *	capabilities	to read any file of the tree, and nothing else
 *	network		none, not even `lo`
 *	system calls	a sandbox's
 *
 * The tree is the sandbox's root put together anew, read-only, from the template below and the
 * layer above, without what cloche adds to every root (fittings.h).
 */
#include "engine/jail/child.h"

enum seal_mount {
	SEAL_MOUNT_TEMPLATE,
	SEAL_MOUNT_BASE, /* these two as a sandbox's */
	SEAL_MOUNT_LAYER,
	SEAL_MOUNT_OUT,
	SEAL_MOUNT_PROGRAMS,
	SEAL_MOUNT_STAGE,
	SEAL_MOUNT_COUNT,
};

#define SEAL_IMAGE "image.erofs" /* in SEAL_MOUNT_OUT */
#define SEAL_TREE  "template"    /* the directory of a sandbox that is sealed instead of its root */

struct seal_orders { /* with the mounts and, last, where its words go */
	uint64_t epoch_s, bytes_max;
	uint32_t is_tree, is_small, is_host;
};

_Noreturn void seal_child_run(struct jail *jail);
