// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Saves the memory of a stopped machine as a sparse file, and reads it back. All calls block: they
 * are for a child of the broker.
 *
 * A booted machine has its RAM in a memfd, whose contents are copied. A copy maps such a memfd
 * privately, so its page tables tell which pages it has changed (proc(5), pagemap). Only these are
 * read, and written over a clone of the file that it came from.
 */
#include "base/digest.h"
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

#define RAM_NAME "cloche-ram" /* of the file in memory, as /proc shows it */

struct ram {
	pid_t vmm; /* QEMU's parent */
	uint64_t bytes;
	bool is_copy;
	int base_fd; /* of a copy: the file on disk that it came from, or -1: it is gone */
};

/* Writes it to both files; memory_fd may be -1. *ret_bytes is the number of bytes written. */
must_check int ram_save(const struct ram *ram, int file_fd, int memory_fd, uint64_t *ret_bytes,
                        struct err *err);
/* Hashes all pages that are not zero. They are also copied to memory_fd, unless it is -1. */
must_check int ram_read(int file_fd, int memory_fd, struct digest *ret, struct err *err);
/* Makes an empty RAM. */
must_check int ram_make(uint64_t bytes, int *ret_fd, struct err *err);
