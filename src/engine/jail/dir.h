// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Reads a directory's names, without "." and "..". Entries may be removed while it is read. */
#include "base/auto.h"

struct dir_reader {
	int fd;
	size_t at, len;
	char entries[4096] __attribute__((aligned(8)));
};

#define auto_dir __attribute__((cleanup(dir_close)))

must_check int dir_open(struct dir_reader *d, int dir_fd, const char *path); /* follows no link */
const char *dir_next(struct dir_reader *d); /* borrowed until the next call; NULL at the end */
void dir_close(struct dir_reader *d);       /* also after a failed dir_open() */
