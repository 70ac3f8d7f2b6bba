// SPDX-License-Identifier: Apache-2.0
/*
 * The vm engine: a guest with a kernel of its own, run by QEMU, which is run in a jail.
 *
 *	broker --(spawner)--> cloche-vmm --> QEMU --> kernel --> agent as init
 *	                   in the group     in the sandbox's `user` group:
 *	                   of a jail's agent   limits, freezing
 *
 * For the broker it is a jail whose first process is cloche-vmm (src/vmm) instead of an agent:
 * cloche-vmm listens on the same socket and lives as long as an agent would. So starting, the
 * record, adoption, usage, freezing and removal are the same code (engine/guest), and only the
 * differences are here: what is started (kind.c, start.c, child.c), on which machine
 * (boot/machine.c), with which disk (disk.c).
 */
#include "base/log.h"
#include "base/units.h"
#include "engine/engine.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/guest.h"
#include "engine/guest/guest_record.h"
#include "engine/vm/ask.h"
#include "engine/vm/boot/kvm.h"
#include "engine/vm/boot/machine.h"
#include "engine/vm/card.h"
#include "engine/vm/disk.h"
#include "engine/vm/kind.h"
#include "engine/vm/start.h"

#define MEASURE_US (2 * SECOND_US)
#define OFF_US     (20 * SECOND_US) /* to write back, emulated, on a busy host */

static int vm_probe(const struct engine_host *given, struct guest_host **ret, struct err *err)
{
	*ret = given->base; /* also for guests of a host that cannot run further ones */
	if (given->is_vm_emulated)
		kvm_forbid();
	kvm_recall(given->base);
	machine_set_boot_max(given->vm_boot_us);
	return machine_probe(given->base, err);
}

static void vm_leave(struct guest_host *host)
{
	(void)host; /* the first engine's */
	machine_close();
}

/* The jail's walls are around QEMU; the guest's own kernel is one more wall. */
static struct isolation vm_isolation(struct guest_host *host, const struct guest *g)
{
	const bool is_kvm = g ? g->spec.is_kvm : kvm_is_usable();
	struct isolation ret = guest_isolation(host);

	ret.engine = vm_engine.number;
	ret.grade = is_kvm ? GRADE_HARDWARE : GRADE_EMULATED;
	ret.walls |= BIT(WALL_OWN_KERNEL) | BIT(WALL_DISK_LIMIT) | BIT(WALL_INODE_LIMIT) |
	             (is_kvm ? BIT(WALL_HARDWARE) : 0);
	ret.gaps &= ~ret.walls;
	return ret;
}

static enum engine_speed vm_speed(struct guest_host *host)
{
	(void)host;
	return kvm_speed();
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
	    limits->open_files != has->open_files ||
	    limits->cpu_milli > (has->cpu_milli + 999) / 1000 * 1000) {
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "of a running vm only vcpus can change, up to the whole ones it has");
		return err_hint(err, "create another one with these limits");
	}
	r = cgroup_set_limits(&g->host->cgroups, g->spec.id, &groups, err);
	if (r < 0)
		return r;
	g->spec.limits = *limits;
	return guest_record_write(g->dir_fd, &g->spec, g->pid, err);
}

struct measuring {
	struct ask *ask;
	struct guest_usage usage; /* the host's own figures */
	uint64_t disk_bytes;      /* the limit */
	guest_measured_fn fn;
	void *arg;
};

/* A guest's figures may be lies, so only those are used that harm nobody but itself. Its filesystem
 * is full before its disk is, so the filesystem's free space counts. The host's figure stays high
 * for some seconds after a file was removed, so it cannot tell whether the disk is full now. */
static void add_own(struct measuring *m, const struct port_usage *own)
{
	const uint64_t left = own->disk_total_bytes - MIN(own->disk_bytes, own->disk_total_bytes);

	m->usage.oom_kills = own->oom_kills;
	m->usage.pids_refused = own->pids_refused;
	m->usage.pids = own->pids;
	m->usage.memory_peak_bytes = MIN(m->usage.memory_peak_bytes, own->memory_peak_bytes);
	m->usage.is_left_told = own->disk_total_bytes > 0;
	m->usage.left_bytes = left;
	if (own->disk_total_bytes > 0 && left < m->disk_bytes) {
		m->usage.disk_bytes = MAX(m->usage.disk_bytes, m->disk_bytes - left);
		m->usage.files_bytes = m->usage.disk_bytes;
	}
}

static void on_measured(const struct err *err, void *arg)
{
	struct measuring *m = arg;

	if (!err)
		add_own(m, ask_usage(m->ask));
	m->fn(&m->usage, m->arg);
	ask_end(m->ask);
	free(m);
}

static int vm_measure(struct guest *g, guest_measured_fn fn, void *arg, struct err *err)
{
	const struct vmm_ask ask = {.kind = VMM_ASK_USAGE};
	struct measuring *m = xnew0(struct measuring);
	struct err ignored;
	int r = guest_read_usage(g, &m->usage, err);

	m->disk_bytes = g->spec.limits.disk_bytes;
	m->fn = fn;
	m->arg = arg;
	if (r == 0 && !g->is_frozen &&
	    ask_begin(g, &ask, -1, MEASURE_US, on_measured, m, &m->ask, &ignored) == 0)
		return 0;
	if (r == 0)
		fn(&m->usage, arg);
	free(m);
	return r;
}

/* Without a shutdown, data that its kernel has not written yet would be lost. A machine that does
 * not switch itself off in time is killed like any other guest. */
static void on_off(const struct err *err, void *arg)
{
	struct guest *g = arg;

	if (err && err->code != ERR_GONE)
		log_warn("vm.not_off", "id=%s error='%s'", g->spec.id, err->message);
	ask_end(take_ptr(vm_own(g)->off));
	guest_kill(g, g->gone, g->gone_arg);
}

static void vm_kill(struct guest *g, guest_gone_fn gone, void *arg)
{
	const struct vmm_ask ask = {.kind = VMM_ASK_OFF};
	struct err err;

	g->gone = gone;
	g->gone_arg = arg;
	if (g->state == GUEST_RUNNING && g->spec.keeper) {
		(void)!guest_freeze(g, false, &err);
		if (ask_begin(g, &ask, -1, OFF_US, on_off, g, &vm_own(g)->off, &err) == 0)
			return;
	}
	guest_kill(g, gone, arg);
}

static int vm_freeze(struct guest *g, bool on, struct err *err)
{
	int r = guest_freeze(g, on, err);

	if (r == 0 && !on)
		card_go_on(g);
	return r;
}

const struct engine vm_engine = {
	.name = "vm",
	.number = 2,
	.traits = {.has_own_kernel = true,
                   .may_be_emulated = true,
                   .has_own_disk = true,
                   .has_copies = true,
                   .spare_us = 500 * MILLISECOND_US,
                   .spare_bytes = 64 * MIB},
	.kind = &vm_kind,
	.probe = vm_probe,
	.leave = vm_leave,
	.isolation = vm_isolation,
	.speed = vm_speed,
	.start = guest_start,
	.connect = guest_connect,
	.set_limits = vm_set_limits,
	.usage = guest_read_usage,
	.measure = vm_measure,
	.shortage = guest_read_shortage,
	.freeze = vm_freeze,
	.open_door = card_open_door,
	.close_door = card_close_door,
	.plug = card_plug,
	.kill = vm_kill,
	.discard = guest_discard,
	.snapshot = disk_snapshot_take,
	.discard_snapshot = disk_snapshot_discard,
	.each_snapshot = disk_snapshot_each,
};
