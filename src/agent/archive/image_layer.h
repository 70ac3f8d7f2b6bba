// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A whole root as one compressed layer of an image, written to a file. Files, directories and links
 * with their owners, all bits of their modes and their times to the nanosecond: image_root.h makes
 * the same root of it. What is neither (pipes, sockets, devices) is left out. Names are in order,
 * so the same root is the same bytes.
 *
 * It can also give the tar alone, while it is made. Then files that no template has are left out,
 * too.
 */
#include "base/digest.h"
#include "base/err.h"

struct image_layer_made {
	struct digest raw, diff_id; /* of the file, and of the tar in it */
	uint64_t bytes;             /* of the file */
};

/* Takes root_fd, an open directory, also when it fails. */
must_check int image_layer_make(int root_fd, int out_fd, struct image_layer_made *ret,
                                struct err *err);
/* Likewise; to the host. */
must_check int image_layer_send(int root_fd, struct err *err);
