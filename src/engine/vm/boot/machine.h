// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What all vms of this host share: the kernel with its initrd, and the disk with the fittings. It
 * is made at the first start, which waits some tenths of a second for it, and again when the kernel
 * has changed.
 */
#include "engine/engine.h"
#include "engine/vm/boot/identity.h"

struct machine_fds { /* the caller's */
	int kernel_fd, initrd_fd, fittings_fd;
};

/* Whether vms are possible at all; makes nothing. err says what is missing and what to do. */
must_check int machine_probe(struct guest_host *host, struct err *err);
void machine_set_boot_max(uint64_t us);
uint64_t machine_boot_max_us(bool is_kvm); /* until its agent serves */
must_check int machine_open(struct guest_host *host, struct machine_fds *ret, struct err *err);
void machine_close(void);

/* The identity of all machines that start now. machine_open() must have been called. */
must_check int machine_identity(struct guest_host *host, struct identity *ret, struct err *err);
uint32_t machine_cpus(const struct guest_limits *limits); /* whole ones */
