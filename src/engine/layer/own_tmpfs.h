// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The small tmpfs that each jail has for itself: nodes of devices, and covers for files of /proc.
 * If two sandboxes had one inode in common, each could watch when the other opens it (inotify), and
 * could lock it against the other (flock).
 *
 *	dev/	a /dev of six nodes and some links, with places for pts and shm
 *	empty, none/	a file and a directory to cover others with
 *	kvm		the node of /dev/kvm, for vms
 *
 * It belongs to the host's root, in the host's user namespace: inside nobody owns a thing in it.
 * Nodes of our own making are what their numbers say, whatever has become of the host's /dev.
 */
#include "base/err.h"

#define OWN_TMPFS_DEV        "dev"
#define OWN_TMPFS_EMPTY_FILE "empty"
#define OWN_TMPFS_EMPTY_DIR  "none"
#define OWN_TMPFS_KVM        "kvm" /* outside of dev/: only QEMU gets to see it */

/* A detached mount that the broker may go on to write to. What is mounted of it inside must be made
 * read-only. */
must_check int own_tmpfs_make(int *ret_fd, struct err *err);
/* One that is complete, with the node of KVM, and read-only. */
must_check int own_tmpfs_make_sealed(int *ret_fd, struct err *err);
