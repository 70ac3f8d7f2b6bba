// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A root directory, put together from archives: one tar, or the layers of an image in their order.
 * What is in them is hostile. Every path is resolved by the kernel as if the directory were the
 * root (RESOLVE_IN_ROOT), so symbolic links, which roots are full of, lead where they will lead
 * later, and nowhere else. Owners, all bits of modes, times, hard and symbolic links are kept.
 * Attributes are not. Devices are refused, but for those in dev/, which a sandbox has of its own.
 */
#include "base/digest.h"
#include "base/err.h"

#include <stdbool.h>

struct root;

struct image_root_figures {
	uint64_t entries, bytes; /* all that was unpacked */
	uint64_t left_out;       /* named pipes, and devices in dev/ */
	uint64_t owners_changed; /* ids beyond 65535, which no sandbox has: nobody's now */
	uint64_t newest_s;       /* the latest time of any entry */
};

struct image_root_limits {
	uint64_t entries, bytes;
};

typedef int (*image_root_progress_fn)(const struct image_root_figures *figures, struct err *err);

/* fd, an open directory, stays the caller's. progress is called every now and then. */
struct root *image_root_new(int fd, const struct image_root_limits *limits,
                            image_root_progress_fn progress);
void image_root_free(struct root *root);
DEFINE_FREEP(struct root, image_root_free)

/* Unpacks all of an fd. */
must_check int image_root_unpack(struct root *root, int archive_fd, struct err *err);

struct image_root_layer {
	int fd;                       /* a file: it is read twice */
	uint64_t bytes;               /* of the file; 0 = not known */
	const struct digest *raw;     /* of the file; NULL = not known */
	const struct digest *diff_id; /* of the archive in it */
};
/* The same for a layer: what it takes away of those before it is taken away, and nothing is
 * unpacked of a layer that has another digest. */
must_check int image_root_add_layer(struct root *root, const struct image_root_layer *layer,
                                    struct err *err);

/* Sets the times of directories: once, behind the last archive. */
void image_root_finish(struct root *root);
const struct image_root_figures *image_root_figures(const struct root *root);
