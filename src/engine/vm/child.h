// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A vm's child: the process that the spawner clones for it, from its first instruction to the exec
 * of cloche-vmm, as jail/jail_child.h for a jail. QEMU is confined as if a guest had taken it over:
 * its root has its program, libraries and firmware, six device nodes and /dev/kvm if it is used.
 */
#include "engine/jail/jail_child.h"

enum vm_order_fd { /* in this order after the orders, then cgroup.procs of `user`, then the shown
	              disks */
	           VM_ORDER_USR,       /* a detached mount of the host's /usr */
	           VM_ORDER_OWN_TMPFS, /* likewise */
	           VM_ORDER_VMM,
	           VM_ORDER_LISTEN,
	           VM_ORDER_CONTROL,
	           VM_ORDER_RAM,
	           VM_ORDER_KERNEL,
	           VM_ORDER_INITRD,
	           VM_ORDER_TEMPLATE,
	           VM_ORDER_FITTINGS,
	           VM_ORDER_SCRATCH,
	           VM_ORDER_FDS,
};

_Noreturn void vm_child_run(struct jail *jail);
