// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Resolves an untrusted path beneath an open directory. The kernel refuses a path that leaves the
 * directory (-EXDEV) or passes through a symbolic link (-ELOOP, or -ENOTDIR when opening a
 * directory). Nobody can win a race against this check.
 */
#include "base/auto.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * resolve has RESOLVE_BENEATH or RESOLVE_IN_ROOT; links are followed unless it forbids them. If the
 * path has "..", the kernel gives up with -EAGAIN when anything on the host is renamed or mounted
 * meanwhile. This function tries again a bounded number of times.
 */
must_check int beneath_resolve(int dir_fd, const char *path, int flags, uint64_t resolve);
must_check int beneath_open(int dir_fd, const char *path, int flags);
/*
 * Opens the directory that contains path, with O_PATH. *ret_name is path's last name and points
 * into path. With make, missing directories are made. path has no "//" and no '/' at its end.
 */
must_check int beneath_parent(int dir_fd, const char *path, bool make, const char **ret_name);
