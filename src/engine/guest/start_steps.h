// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a start holds on its way, for its steps here and in engine/vm. */
#include "engine/guest/child_orders.h"
#include "engine/guest/guest.h"

enum start_vm_fd { /* of a vm: files that QEMU gets, opened by the broker */
	           START_VM_RAM,
	           START_VM_KERNEL,
	           START_VM_INITRD,
	           START_VM_TEMPLATE,
	           START_VM_FITTINGS,
	           START_VM_SCRATCH,
	           START_VM_SHOWN, /* the first of them */
	           START_VM_FDS = START_VM_SHOWN + SHOWN_MAX,
};

struct start { /* the fds are only for the child */
	struct guest *g;
	const struct start_step *next;
	loop_child_fn on_exit;
	void (*failed)(struct guest *g, const struct err *err); /* of a copy, later */
	struct jail jail;
	bool is_asked;  /* the spawner owes us a child */
	bool has_shown; /* the disks that a vm looks into were cloned, or are being */
	int layer_fd, go_fd, agent_group_fd;
	int vm_fds[START_VM_FDS];
	struct hatched child;
};

/* The sandbox's limits as its cgroups have them. */
struct guest_limits guest_group_limits(const struct guest_spec *spec);
