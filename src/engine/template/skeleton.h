// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The pieces of a generated root: directories and files with their owners and modes as seen
 * inside. */
#include "base/buf.h"

#include <sys/types.h>

must_check int skeleton_dir(int fd, const char *path, mode_t mode, uid_t owner);
must_check int skeleton_file(int fd, const char *path, mode_t mode, uid_t owner, const void *data,
                             size_t len);
/*
 * The certificates that sandboxes trust: those that the host trusts, since their connections go
 * through the host and may have to pass a proxy that only its administrator knows. If the host has
 * no bundle, the ones of the ca-certificates package; else none.
 */
must_check int skeleton_read_ca(struct buf *out);
#define SKELETON_CA     "etc/ssl/certs/ca-certificates.crt"
#define SKELETON_CA_MAX (4 << 20)
