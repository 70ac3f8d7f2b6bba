// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The pieces of a made root: directories and files with their owners and modes as seen inside. */
#include "base/buf.h"

#include <sys/types.h>

must_check int skeleton_dir(int fd, const char *path, mode_t mode, uid_t owner);
must_check int skeleton_file(int fd, const char *path, mode_t mode, uid_t owner, const void *data,
                             size_t len);
/*
 * Whom the inside trusts: whoever the host does, since its connections are the host's and may have
 * to pass a proxy that only the host's administrator knows. Where the host has no bundle, what the
 * ca-certificates package ships; else nothing.
 */
must_check int skeleton_read_ca(struct buf *out);
#define SKELETON_CA     "etc/ssl/certs/ca-certificates.crt"
#define SKELETON_CA_MAX (4 << 20)
