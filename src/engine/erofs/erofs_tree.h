// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The files of an image with those that a sandbox has written over them, as one tree in memory.
 *
 * What was written is an erofs image too, of the overlay's upper directory: it has whiteouts
 * (character devices 0:0) where files were removed. A directory that hides the one below it has an
 * attribute that such an image lacks, so the upper directory itself is asked for it.
 */
#include "engine/erofs/erofs_file.h"

struct erofs_node;

struct erofs_child {
	const char *name; /* in the bytes of its image */
	size_t len;
	struct erofs_node *node;
};

struct erofs_node {
	struct erofs_inode inode; /* as it was in its image */
	bool is_added;            /* its image is that of the written files */
	bool is_unpacked;         /* written without a rest behind the inode */
	uint32_t nlink;
	uint32_t first;               /* the new address of its contents */
	uint64_t id;                  /* the new number of its inode */
	const struct erofs_node *up;  /* of a directory: what contains it, or itself */
	struct erofs_child *children; /* of a directory, by name */
	size_t n_children;
};

struct erofs_tree {
	struct erofs_node **nodes; /* each once, a directory before what it contains */
	size_t n, room;
};

struct erofs_merge {
	const struct erofs_file *base, *added;
	int upper_fd; /* borrowed */
	/* Whether a file of the base is not to be in the tree; by its path, without a first slash.
	 */
	bool (*is_left_out)(const char *path);
};

/* 0 or a negative errno. The tree lasts as long as both files. */
must_check int erofs_merge(const struct erofs_merge *merge, struct erofs_tree *ret);
void erofs_tree_free(struct erofs_tree *t);
