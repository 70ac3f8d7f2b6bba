// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What every sandbox finds alike, made once: a tmpfs at RUN/stage, read-only as soon as it is
 * filled, of which each jail gets a copy of the mount.
 *
 *	dev/	a /dev of six nodes and some links, with places for pts and shm
 *	empty, none/	a file and a directory to cover others with
 *	kvm		the node of /dev/kvm, for vms
 *	criu/		for CRIU (criu.h) and no jail
 *
 * It is the host's root's, in the host's user namespace: inside nobody owns a thing in it. Nodes of
 * our own making are what their numbers say, whatever has become of the host's /dev.
 */
#include "base/err.h"

#define SHARED_TMPFS_DEV        "dev"
#define SHARED_TMPFS_EMPTY_FILE "empty"
#define SHARED_TMPFS_EMPTY_DIR  "none"
#define SHARED_TMPFS_KVM        "kvm" /* outside of dev/: only QEMU gets to see it */
#define SHARED_TMPFS_CRIU       "criu"

struct shared_tmpfs {
	int fd;
	char *path;
};

must_check int shared_tmpfs_open(struct shared_tmpfs *s, const char *run_dir, struct err *err);
void shared_tmpfs_close(struct shared_tmpfs *s); /* running jails keep their copies */
/* A detached copy of its mount. */
must_check int shared_tmpfs_copy(const struct shared_tmpfs *s, int *ret_fd, struct err *err);
