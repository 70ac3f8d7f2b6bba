// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Makes one image of a merged tree. It is written into the image of the added files: their blocks
 * stay where they are, and behind them come the inodes and directories of the whole tree. So the
 * result is complete by itself, but for the blocks of unchanged files, which stay in the base and
 * in the bases of the base.
 *
 * Blocks are copied instead, still compressed,
 *	- from an image that is only a step, unless the result is one too: it may have what no
 *	  template must have,
 *	- from a base of which little is used, so that it need not be kept for that,
 *	- from the least used ones if there would be too many bases.
 */
#include "engine/erofs/erofs_tree.h"

struct erofs_part { /* where blocks of the tree are: the base, and then its bases in their order */
	struct digest digest;
	int fd; /* borrowed */
	bool is_whole;
};

struct erofs_output {
	int fd; /* of the image of the added files, for writing */
	const struct erofs_file *base, *added;
	const struct erofs_part *parts; /* one and base->bases.n */
	bool is_whole;                  /* the result is only a step */
};

/* 0 or a negative errno; the file is then of no use. */
must_check int erofs_write(const struct erofs_output *out, struct erofs_tree *tree);
