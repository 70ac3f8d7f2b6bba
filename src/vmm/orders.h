// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the engine's child gives to cloche-vmm when it execs it: fds with fixed numbers, no
 * arguments, no environment. All of it comes from the engine, nothing from a guest.
 */
#include <stdint.h>

enum vmm_fd {
	VMM_FD_ORDERS = 3, /* a pipe with a struct vmm_orders in it */
	VMM_FD_STATUS,     /* "1" once the guest serves, or a struct err; closed by its end */
	VMM_FD_LISTEN,     /* connections here go to the agent in the guest */
	VMM_FD_CONTROL,    /* and here asks something of cloche-vmm itself (asks.h) */
	VMM_FD_RAM,        /* what the guest has for memory: of a copy, sealed */
	VMM_FD_KERNEL,     /* of a copy: the state of its devices */
	VMM_FD_INITRD,     /* of no use to a copy */
	VMM_FD_TEMPLATE,   /* disks; the last one alone is open for writing */
	VMM_FD_FITTINGS,
	VMM_FD_SCRATCH,
	VMM_FD_GROUPS, /* cgroup.procs of `user` in each tree, for QEMU; after them the n_shown
	                  disks that it shows, and the n_bases of the template */
};

struct vmm_orders {
	char hostname[64];
	uint64_t caps_of_root;
	uint64_t boot_max_us; /* until its agent serves */
	uint32_t n_groups, n_shown, n_bases;
	uint32_t is_kvm;
	uint32_t is_copy; /* it resumes from a saved state instead of booting */
	uint32_t cpus;
	uint32_t memory_mib;
	uint32_t pids, open_files; /* of execs in the guest */
};

/* Its exit codes. */
enum vmm_exit {
	VMM_EXIT_OFF = 0, /* the guest has switched itself off */
	VMM_EXIT_OWN = 1, /* an error of ours; it is in the status if the guest did not serve yet */
	VMM_EXIT_PANIC = 10, /* the guest's kernel gave up, or its init ended */
	VMM_EXIT_RESET,      /* it asked for a restart, or its CPU came to one */
	VMM_EXIT_QEMU,       /* QEMU itself died */
	VMM_EXIT_LINK,       /* the guest sent something that is not a record */
	VMM_EXIT_KVM,        /* /dev/kvm opens, and cannot run this guest */
};
