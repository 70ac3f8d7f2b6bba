// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The names in a directory, without "." and "..", as the kernel gives them: no DIR, no allocation.
 * Entries may be removed while it is read. A failed read ends the loop just as the directory's end
 * does, so check `error` after the loop.
 */
#include "base/auto.h"

#include <stdbool.h>

struct dir_reader {
	int fd;
	bool is_borrowed;
	int error; /* negative errno of a failed open or read; 0 at the directory's end */
	size_t at, len;
	_Alignas(uint64_t) char bytes[16 * 1024];
};

#define auto_dir __attribute__((cleanup(dir_close)))

must_check int dir_open(struct dir_reader *d, int dir_fd, const char *path); /* follows no link */
must_check int dir_begin(struct dir_reader *d, int fd); /* an open one, borrowed, from its start */
/* Borrowed until the next call; NULL at the end or with d->error. */
const char *dir_next(struct dir_reader *d);
/* Logs a failure, for callers that can only go on without the rest. A missing directory is not a
 * failure: it has no names. */
void dir_tell(const struct dir_reader *d, const char *what);
void dir_close(struct dir_reader *d); /* also after a failed dir_open() */
