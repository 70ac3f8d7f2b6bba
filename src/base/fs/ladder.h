// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Goes down a directory tree and back up by open directories, never by a path. The tree may be of
 * any depth; the number of fds is bounded. Deeper than LADDER_FDS, a parent is closed on the way
 * down and opened again as "..", which must still be the same directory.
 */
#include "base/auto.h"

#include <sys/types.h>

#define LADDER_FDS 64

struct rung {
	int fd; /* -1: to be found by ".." */
	dev_t dev;
	ino_t ino;
};

struct ladder {
	struct rung *rungs;
	size_t n, size;
};

/* Takes fd, a directory open for reading, also when it fails. */
must_check int ladder_init(struct ladder *l, int fd);
void ladder_done(struct ladder *l);
int ladder_fd(const struct ladder *l);                          /* the current directory */
must_check int ladder_down(struct ladder *l, const char *name); /* no symbolic link */
must_check int ladder_up(struct ladder *l); /* -ESTALE: the tree was moved meanwhile */
