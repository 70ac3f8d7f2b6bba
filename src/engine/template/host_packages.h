// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which packages the host has, told to the apt inside: /usr is the host's, so its packages are
 * there, and dependencies on them are met. Only names, versions and what they provide; no
 * dependencies of their own (the host has judged those), no conffiles, no file lists.
 */
#include "base/buf.h"

must_check int host_packages_read(struct buf *ret); /* the host's; empty where it has no dpkg */
must_check int host_packages_write(int root_fd, const char *host_status);
