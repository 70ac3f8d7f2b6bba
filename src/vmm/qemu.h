// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One QEMU: its command line, its start, and its sockets. It can reach only what it was given: the
 * only files that it opens by name are /dev/kvm, its libraries and firmware.
 */
#include "base/err.h"
#include "vmm/orders.h"

#include <sys/types.h>

struct qemu {
	pid_t pid;
	int pidfd;
	int port_fd;    /* the guest's virtio-serial port */
	int console_fd; /* what the guest's kernel prints */
	int qmp_fd;
	int words_fd; /* what QEMU itself prints */
};

/* The caller owns the fds in *ret, which are non-blocking. The fds of the disks and the kernel are
 * closed here: only QEMU has them from now on. */
must_check int qemu_start(const struct vmm_orders *orders, struct qemu *ret, struct err *err);
