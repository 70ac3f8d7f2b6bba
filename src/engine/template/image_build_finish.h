// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The last step of an image build: DATA/templates/NAME/image.erofs is hashed and synced to disk,
 * and its directory is renamed to its digest. A child of the broker does it, because it takes long
 * for a large image.
 */
#include "engine/engine.h"

struct image_build_finished {
	struct err err; /* code ERR_NONE: it is there */
	struct image_build_result result;
};

/* One struct image_build_finished comes on *ret_fd before the child ends. */
must_check int image_build_finish_start(int templates_fd, const char *name, uint64_t keeper,
                                        int *ret_pidfd, int *ret_fd, struct err *err);
