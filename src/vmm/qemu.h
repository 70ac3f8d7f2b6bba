// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One QEMU: its command line, its start, and the sockets that it is spoken to by. What it may reach
 * is what it was given: no file is opened by name but /dev/kvm, its libraries and firmware.
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

/* fds are the caller's, non-blocking. The disks' and the kernel's are closed here: QEMU alone has
 * them from now on. */
must_check int qemu_start(const struct vmm_orders *orders, struct qemu *ret, struct err *err);
