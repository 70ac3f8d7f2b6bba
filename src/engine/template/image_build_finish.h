// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The last step of an image build: DATA/templates/NAME/image.erofs is hashed and synced to disk,
 * and its directory is renamed to its digest. A child of the broker does it, because it takes long
 * for a large image. What made the image has read files of a sandbox, so an image that needs others
 * than those it was made over is refused: they might be somebody else's. One that comes from
 * another node was sealed there, and is held against its digest.
 */
#include "engine/engine.h"

struct image_build_finished {
	struct err err; /* code ERR_NONE: it is there */
	struct image_build_result result;
};

struct image_build_finish {
	int templates_fd;
	const char *name;
	uint64_t keeper;
	bool is_whole;                 /* it is marked as a step to another image */
	const struct digest *may_need; /* the images that it may have as bases */
	size_t n_may_need;
	/* What it must be: it was made elsewhere (image_exchange.h), and may need what is here.
	 * NULL: it was made here. is_base: it gets the name of one that is there for others. */
	const struct digest *is;
	uint64_t bytes;
	bool is_base;
};

/* One struct image_build_finished comes on *ret_fd before the child ends. */
must_check int image_build_finish_start(const struct image_build_finish *f, int *ret_pidfd,
                                        int *ret_fd, struct err *err);
