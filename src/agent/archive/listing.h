// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The names of one or several directories together, each once, in order of bytes. */
#include "base/err.h"

struct listing {
	char **names;
	size_t n;
	size_t room;
};

must_check int listing_add(struct listing *l, int dir_fd, struct err *err); /* from its beginning */
void listing_add_name(struct listing *l, const char *name);
void listing_sort(struct listing *l); /* after the last one was added */
void listing_done(struct listing *l);
