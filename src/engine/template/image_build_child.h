// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The child that builds an image: from the spawner's clone3() to the exec of mkfs.erofs. It reads
 * what a sandbox wrote, so it is jailed like one:
 *
 *	user namespace	its own, with a range of ids that no sandbox has
 *	root		a small tmpfs; in it, read-only, the host's programs and the tree, and one
 *			directory of the host for the image
 *	capabilities	to read any file of the tree, and nothing else
 *	network		none, not even `lo`
 *	system calls	a sandbox's
 *
 * The tree is the sandbox's root, assembled again read-only from the template and the layer over
 * it, without what cloche adds to every root (fittings.h).
 */
#include "engine/jail/jail_child.h"
#include "engine/layer/image.h"

enum image_build_mount {
	IMAGE_BUILD_MOUNT_TEMPLATE,
	IMAGE_BUILD_MOUNT_BASE, /* these two as a sandbox's */
	IMAGE_BUILD_MOUNT_LAYER,
	IMAGE_BUILD_MOUNT_OUT,
	IMAGE_BUILD_MOUNT_PROGRAMS,
	IMAGE_BUILD_MOUNT_OWN_TMPFS,
	IMAGE_BUILD_MOUNT_COUNT,
};

#define IMAGE_BUILD_FILE "image.erofs" /* in IMAGE_BUILD_MOUNT_OUT */
#define IMAGE_BUILD_TREE                                                                           \
	"template" /* the directory of a sandbox that is sealed instead of its root */

/* With the mounts, the fd for its output and, last, those of the parts. */
struct image_build_orders {
	uint64_t epoch_s, bytes_max;
	uint32_t is_tree, is_over, is_small, is_whole, is_host;
	/* The images that may be bases of the result, as struct erofs_part; 0: it has none. */
	uint32_t n_parts;
	struct digest parts[IMAGE_FILES_MAX];
};

_Noreturn void image_build_child_run(struct jail *jail);
