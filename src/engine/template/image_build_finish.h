// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The last step of an image build, in a child of the broker, because it takes as long as the image
 * is large: DATA/templates/NAME/image.erofs is hashed, brought to disk, and its directory renamed
 * to its digest.
 */
#include "engine/engine.h"

struct image_build_finished {
	struct err err; /* code ERR_NONE: it is there */
	struct image_build_result result;
};

/* *ret_fd gives one struct image_build_finished before the child ends. */
must_check int image_build_finish_start(int templates_fd, const char *name, uint64_t keeper,
                                        int *ret_pidfd, int *ret_fd, struct err *err);
