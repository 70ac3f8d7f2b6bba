// SPDX-License-Identifier: Apache-2.0
#pragma once
/* File descriptors: whole reads and writes, small files, and passing fds over unix sockets. */
#include "base/auto.h"
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

static inline void close_fd(int *fd) /* sets it to -1 */
{
	if (*fd >= 0)
		(void)close(take_fd(fd));
}

/* Blocking fds only; retries EINTR. 0 or a negative errno. */
must_check int fd_write_all(int fd, const void *data, size_t len);
/* Reads exactly len bytes; -ENODATA at a clean end before the first byte, -EPIPE in the middle. */
must_check int fd_read_all(int fd, void *data, size_t len);
must_check int fd_set_nonblock(int fd, bool on);

/* A small file in one read or one write (for /proc, /sys, cgroup files). path is relative to
 * dir_fd. */
must_check int fd_read_file(int dir_fd, const char *path, char *text,
                            size_t size); /* NUL-terminated, newline cut; length */
must_check int fd_write_file(int dir_fd, const char *path, const char *text); /* no O_CREAT */
/* Writes a new file: temporary name, fsync if asked, rename. */
must_check int fd_replace_file(int dir_fd, const char *path, const void *data, size_t len,
                               mode_t mode, bool sync);

#define FD_PASS_MAX 32
/*
 * One datagram or stretch of bytes with fds. fd_send() keeps the fds open here. fd_recv() sets
 * *n_fds to what came, all O_CLOEXEC, and returns the length, 0 at the end, or -EPROTO when the
 * message or its fds were truncated.
 */
must_check ssize_t fd_send(int sock, const void *data, size_t len, const int *fds, size_t n_fds);
must_check ssize_t fd_recv(int sock, void *data, size_t len, int *fds, size_t *n_fds);
