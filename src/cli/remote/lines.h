// SPDX-License-Identifier: Apache-2.0
#pragma once
/* NDJSON, a line at a time: the body of a reply, or a file. */
#include "cli/remote/remote.h"

/* A result other than 0 ends the reading. */
typedef int (*lines_fn)(void *arg, const char *line, size_t len, struct err *err);

/*
 * Hands every line to fn, but for empty ones, which are signs of life. Gives what fn gave, or 0
 * where the stream has ended or broken before. A line of more than max bytes is an error.
 */
must_check int lines_read(struct remote *remote, size_t max, lines_fn fn, void *arg,
                          struct err *err);
/* The same from a file or pipe. */
must_check int lines_read_fd(int fd, size_t max, lines_fn fn, void *arg, struct err *err);
