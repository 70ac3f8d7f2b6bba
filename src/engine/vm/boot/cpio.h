// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Writes an archive that the kernel unpacks into its first root: cpio in the "newc" format, the
 * only one that the kernel reads. Everything in it belongs to root and has no date, so the same
 * files give the same bytes.
 */
#include "base/auto.h"

#include <sys/types.h>

struct cpio {
	int fd;
	uint32_t entries;
	uint64_t written;
};

/* Paths are relative, and a directory comes before what is in it. 0 or a negative errno. */
must_check int cpio_dir(struct cpio *c, const char *path, mode_t mode);
/* Copies len bytes from the beginning of from_fd; -EPIPE if there are fewer. */
must_check int cpio_file(struct cpio *c, const char *path, mode_t mode, int from_fd, uint64_t len);
must_check int cpio_end(struct cpio *c);
