// SPDX-License-Identifier: Apache-2.0
/*
 * The vm engine: a guest with a kernel of its own, run by QEMU, which is run in a jail.
 *
 *	broker --(nest)--> cloche-vmm --> QEMU --> kernel --> agent as init
 *	                   in the group     in the sandbox's `user` group:
 *	                   of a jail's agent   limits, freezing
 *
 * To the broker it is a jail whose first process is cloche-vmm (src/vmm) instead of an agent: that
 * listens on the same socket and lives and dies as an agent does. So a guest's life, its record,
 * adoption, usage, freezing and removal are the jail's own code (jail/jail.c), and only what
 *differs is here: what is started (start.c, child.c), on which machine (machine.c), with which disk
 *(disk.c).
 */
#include "engine/engine.h"
#include "engine/jail/guest.h"
#include "engine/jail/record.h"
#include "engine/jail/shot.h"
#include "engine/vm/card.h"
#include "engine/vm/disk.h"
#include "engine/vm/machine.h"
#include "engine/vm/start.h"

static int vm_probe(const struct engine_host *host, struct err *err)
{
	if (host->is_vm_emulated)
		machine_emulate();
	return machine_probe(err);
}

/* The jail's walls are around QEMU; the guest has its kernel before them. */
static struct isolation vm_isolation(const struct guest *g)
{
	const bool is_kvm = g ? g->spec.is_kvm : machine_has_kvm();
	struct isolation ret = jail_isolation(g);

	ret.engine = ENGINE_VM;
	ret.grade = is_kvm ? GRADE_HARDWARE : GRADE_EMULATED;
	ret.walls |= BIT(WALL_OWN_KERNEL) | BIT(WALL_DISK_LIMIT) | BIT(WALL_INODE_LIMIT) |
	             (is_kvm ? BIT(WALL_HARDWARE) : 0);
	ret.gaps &= ~ret.walls;
	return ret;
}

static int vm_set_limits(struct guest *g, const struct guest_limits *limits, struct err *err)
{
	const struct guest_limits *has = &g->spec.limits;
	struct guest_limits groups = vm_group_limits(limits);
	int r;

	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	if (limits->memory_bytes != has->memory_bytes || limits->disk_bytes != has->disk_bytes ||
	    limits->inodes != has->inodes || limits->pids != has->pids ||
	    limits->nofile != has->nofile ||
	    limits->cpu_milli > (has->cpu_milli + 999) / 1000 * 1000) {
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "of a running vm only vcpus can change, up to the whole ones it has");
		return err_hint(err, "create another one with these limits");
	}
	r = cgroup_set_limits(&jail_host.cgroups, g->spec.id, &groups, err);
	if (r < 0)
		return r;
	g->spec.limits = *limits;
	return record_write(g->dir_fd, &g->spec, g->pid, err);
}

static int vm_freeze(struct guest *g, bool on, struct err *err)
{
	int r = jail_freeze(g, on, err);

	if (r == 0 && !on)
		card_go_on(g);
	return r;
}

const struct engine vm_engine = {
	.name = "vm",
	.probe = vm_probe,
	.leave = machine_close,
	.isolation = vm_isolation,
	.start = jail_start,
	.adopt = jail_adopt,
	.connect = jail_connect,
	.set_limits = vm_set_limits,
	.usage = jail_usage,
	.shortage = jail_shortage,
	.freeze = vm_freeze,
	.open_door = card_open_door,
	.close_door = card_close_door,
	.plug = card_plug,
	.kill = jail_kill,
	.discard = jail_discard,
	.snapshot = shot_take,
	.discard_snapshot = shot_discard,
	.each_snapshot = shot_each,
};
