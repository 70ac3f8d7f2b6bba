// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Walks a directory tree. Each directory comes before its contents and once more after them; names
 * are in byte order. No symbolic link is followed. Files that vanish during the walk are skipped.
 */
#include "base/err.h"

#include <stdbool.h>
#include <sys/stat.h>

#define WALK_PATH_MAX (64 * 1024) /* a tree may be deeper than PATH_MAX */

struct walk;

struct walk_entry {
	int dir_fd; /* it is `name` in there; borrowed until the next call */
	const char *name;
	const char *path; /* from the walk's beginning, without "./" */
	size_t depth;     /* 1 = directly in the beginning */
	struct stat st;
	bool is_leaving; /* a directory again, after its contents */
};

/* Takes fd, an open directory, also when it fails. is_lenient: a directory that cannot be opened
 * counts as empty. */
must_check int walk_new(int fd, bool is_lenient, struct walk **ret, struct err *err);
void walk_free(struct walk *w);
DEFINE_FREEP(struct walk, walk_free)
/* 1 with *ret, 0 at the end. A directory is entered by the next call unless walk_prune() comes
 * first. */
must_check int walk_next(struct walk *w, struct walk_entry *ret, struct err *err);
void walk_prune(struct walk *w);
