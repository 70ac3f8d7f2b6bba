// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Paths that a stranger named, beneath an open directory. The kernel resolves them, and refuses
 * what leaves the directory (-EXDEV) or passes through a symbolic link (-ELOOP, or -ENOTDIR where a
 * directory was to be opened), whoever put it there and whenever.
 */
#include "base/auto.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * With RESOLVE_BENEATH or RESOLVE_IN_ROOT, through links if that says nothing of them. On a way
 * with
 * ".." the kernel gives up when anything on the host is renamed or mounted meanwhile: it is asked
 * again, but not for ever, for whoever does nothing else.
 */
must_check int beneath_resolve(int dir_fd, const char *path, int flags, uint64_t resolve);
must_check int beneath_open(int dir_fd, const char *path, int flags);
/*
 * The directory that path lies in, with O_PATH, and path's last name, which points into path. make:
 * what is missing of the way is made. path has no "//" and no '/' at its end.
 */
must_check int beneath_parent(int dir_fd, const char *path, bool make, const char **ret_name);
