// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The memory of a machine that stands still, as a sparse file, and back. All of it blocks: it is
 * for a child of the broker.
 *
 * A machine that was booted has its RAM in a file in memory, and what that holds is copied. A copy
 * has it mapped privately over such a file, so that its page tables tell which pages it has changed
 * (proc(5), pagemap): only these are read and written, over a clone of the file that it came from.
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
	int base_fd; /* of a copy: the file that it came from, on disk, or -1: it is gone */
};

/* Writes it to both, the second of which may be -1. *ret_bytes is what was written. */
must_check int ram_save(const struct ram *ram, int file_fd, int memory_fd, uint64_t *ret_bytes,
                        struct err *err);
/* A hash of all that is not zero. With memory_fd, which is not -1, it is copied there. */
must_check int ram_read(int file_fd, int memory_fd, struct digest *ret, struct err *err);
/* An empty one. */
must_check int ram_make(uint64_t bytes, int *ret_fd, struct err *err);
