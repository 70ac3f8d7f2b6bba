// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Tells the apt inside which packages the host has: /usr is the host's, so its packages are there,
 * and dependencies on them are met. Only names, versions and what they provide; no dependencies
 * (the host has checked those), no conffiles, no file lists.
 */
#include "base/buf.h"

must_check int host_packages_read(struct buf *ret); /* the host's; empty where it has no dpkg */
must_check int host_packages_write(int root_fd, const char *host_status);
