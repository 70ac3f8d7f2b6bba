// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The names in an open directory, as the kernel gives them: no DIR, no allocation. */
#include "base/auto.h"

struct dents {
	int fd; /* borrowed, and moved from its beginning to its end */
	int error;
	size_t at, len;
	_Alignas(uint64_t) char bytes[16 * 1024];
};

must_check int dents_begin(struct dents *d, int fd);
/* The next name but "." and "..", valid until the next call; NULL at the end or with d->error. */
const char *dents_next(struct dents *d);
