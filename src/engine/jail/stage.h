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

#define STAGE_DEV        "dev"
#define STAGE_EMPTY_FILE "empty"
#define STAGE_EMPTY_DIR  "none"
#define STAGE_KVM        "kvm" /* outside of dev/: only QEMU gets to see it */
#define STAGE_CRIU       "criu"

struct stage {
	int fd;
	char *path;
};

must_check int stage_open(struct stage *s, const char *run_dir, struct err *err);
void stage_close(struct stage *s); /* running jails keep their copies */
/* A detached copy of its mount. */
must_check int stage_copy(const struct stage *s, int *ret_fd, struct err *err);
