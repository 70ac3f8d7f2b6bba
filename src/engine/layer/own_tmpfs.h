// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The small tmpfs of each jail: device nodes, and covers for files of /proc. If two sandboxes
 * shared an inode, each could watch when the other opens it (inotify), and could lock it against
 * the other (flock).
 *
 *	dev/	a /dev of six nodes and some links, with places for pts and shm
 *	empty, none/	a file and a directory to cover others with
 *	kvm		the node of /dev/kvm, for vms
 *
 * It belongs to the host's root, in the host's user namespace, so nobody inside owns anything in
 * it. We make the nodes by their numbers, so they are right whatever the host's /dev has.
 */
#include "base/err.h"

#define OWN_TMPFS_DEV        "dev"
#define OWN_TMPFS_EMPTY_FILE "empty"
#define OWN_TMPFS_EMPTY_DIR  "none"
#define OWN_TMPFS_KVM        "kvm" /* outside of dev/: only QEMU gets to see it */

/* A detached mount that the broker may still write to. Mounts of it inside must be made
 * read-only. */
must_check int own_tmpfs_make(int *ret_fd, struct err *err);
/* The same, complete with the node of KVM, and read-only. */
must_check int own_tmpfs_make_sealed(int *ret_fd, struct err *err);
