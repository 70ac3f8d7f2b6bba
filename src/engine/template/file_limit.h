// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Bounds the size of a file that a process without rights fills. Any process that has a file open
 * for writing can make it as large as the disk, even after it was unlinked: the kernel cannot limit
 * the size of one file. So a timer looks at the size a few times a second, and empties a file that
 * is larger than announced, again and again while anybody has it open for writing. A greedy writer
 * gets no more room than what it writes between two looks.
 */
#include "engine/engine.h"

struct file_limit;

/* A descriptor of its own; what: for the log. */
must_check int file_limit_new(struct loop *loop, int fd, uint64_t bytes, const char *what,
                              struct file_limit **ret, struct err *err);
bool file_limit_is_broken(const struct file_limit *b); /* it was larger */
/* It is being looked at: a look of ours would wait for the lease of who does. */
void file_limit_pause(struct file_limit *b);
/* The caller needs the file no more. It is watched in the background, and kept empty, until nobody
 * can write into it. */
void file_limit_leave(struct file_limit *b);
/* Nobody can write into it any more; NULL is fine. */
void file_limit_free(struct file_limit *b);
void file_limits_end_all(void); /* the broker stops */
