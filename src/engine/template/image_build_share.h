// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The second half of an image with bases: what mkfs.erofs made of the written files becomes an
 * image of the whole tree (erofs_write.h). In the image build's child, in its jail.
 */
#include "engine/template/image_build_child.h"

struct image_build_share {
	const struct image_build_orders *orders;
	const int *part_fds; /* of orders->parts; the first is the image that was written over */
	bool (*is_left_out)(const char *path);
};

/* 0 or a negative errno; the image is then of no use. The working directory is the upper one. */
must_check int image_build_share(const struct image_build_share *share);
