// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The steps of a start that are a vm's own (kind.c has the table): which
 * kernel, which disks, and the orders to the child that becomes cloche-vmm.
 */
#include "engine/guest/start_steps.h"
#include "engine/vm/boot/identity.h"

#include <assert.h>

enum start_fd { /* own_fds of a start: files that QEMU gets, opened by the broker */
	        START_RAM,
	        START_KERNEL,
	        START_INITRD,
	        START_TEMPLATE,
	        START_FITTINGS,
	        START_SCRATCH,
	        START_SHOWN,                           /* the first of them */
	        START_BASES = START_SHOWN + SHOWN_MAX, /* likewise */
};
static_assert(START_BASES + EROFS_BASES_MAX == START_OWN_FDS,
              "a start has no room for a vm's files");

must_check int vm_open_machine(struct start *s, struct err *err);
must_check int vm_make_disk(struct start *s, struct err *err);
must_check int vm_send_orders(struct start *s, struct err *err);
/* What it was started with (identity.h). */
must_check int vm_read_identity(const struct guest *g, struct identity *ret, struct err *err);
/* The limits of the group with QEMU and its guest: more than those of the guest. */
struct guest_limits vm_group_limits(const struct guest_limits *limits);
