// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Where a path's last name lives: an open directory and a name in it, for calls that must not be
 * led elsewhere between two steps. */
#include "base/err.h"

#include <limits.h>
#include <stdbool.h>

struct place {
	int dir_fd; /* O_PATH */
	char name[NAME_MAX + 1];
};
#define PLACE_INIT                                                                                 \
	{                                                                                          \
		.dir_fd = -1                                                                       \
	}

void place_done(struct place *p);
/* A path that ends in no name ("/", "..") is refused: EISDIR. */
must_check int place_find(const char *path, bool make_parents, struct place *ret, struct err *err);
/* While the place is a symbolic link, goes where it points, as opening it would. */
must_check int place_follow(struct place *p, struct err *err);
