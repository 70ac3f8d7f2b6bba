// SPDX-License-Identifier: Apache-2.0
#include "engine/vm/kind.h"

#include "base/clock.h"
#include "engine/vm/ask.h"
#include "engine/vm/boot/kvm.h"
#include "engine/vm/boot/machine.h"
#include "engine/vm/copy.h"
#include "engine/vm/disk.h"
#include "engine/vm/save.h"
#include "engine/vm/shown.h"
#include "engine/vm/start.h"

#define BOOT_GRACE_US (10 * 1000000U) /* for cloche-vmm to tell that it takes too long */

/* clang-format off */
static const struct start_step steps[] = {
	{"machine", vm_open_machine}, /* before anything is made: most hosts lack something */
	{"directory", start_make_dir},
	{"pipes", start_make_pipes},
	{"spawner", start_ask_spawner},
	{"cgroups", start_make_groups},
	{"layer", start_make_layer},
	{"clone", start_take_child},
	{"listener", start_listen},
	{"groups", start_join_groups},
	{"copy", start_await_copy},
	{"disk", vm_make_disk},
	{"shown", shown_clone},
	{"record", start_write_record},
	{"orders", vm_send_orders},
	{NULL, NULL},
};
/* clang-format on */

static void own_init(struct guest *g)
{
	struct vm_own *own = xnew0(struct vm_own);

	own->tap_fd = -1;
	own->begun_us = clock_steady_us();
	g->own = own;
}

static void own_free(struct guest *g)
{
	ask_end(vm_own(g)->off);
	close_fd(&vm_own(g)->tap_fd);
	free(g->own);
}

static enum spawner_kind child(const struct guest_spec *spec)
{
	(void)spec;
	return SPAWNER_VM;
}

static uint64_t start_max_us(const struct guest_spec *spec)
{
	return machine_boot_max_us(spec->is_kvm) + BOOT_GRACE_US;
}

/* A guest that this host's KVM cannot run is started again without KVM. */
static bool retry(struct guest *g, const struct err *err)
{
	if (!g->spec.is_kvm || err->errnum != ENODEV)
		return false;
	kvm_on_failed(g->host);
	return true;
}

static void serves(struct guest *g)
{
	if (g->spec.is_kvm)
		kvm_on_served(g->host, clock_steady_us() - vm_own(g)->begun_us);
}

static void drop(struct guest *g)
{
	machine_drop_save(g);
	copy_unneed(g);
	ask_end(take_ptr(vm_own(g)->off));
}

const struct guest_kind vm_kind = {
	.steps = steps,
	.has_own_disk = true,
	.disk_slack_bytes = DISK_SLACK_BYTES,
	.init = own_init,
	.free = own_free,
	.child = child,
	.group_limits = vm_group_limits,
	.start_max_us = start_max_us,
	.prepare = copy_need,
	.retry = retry,
	.serves = serves,
	.save = machine_save,
	.release = machine_release,
	.go_on = machine_go_on,
	.drop = drop,
	.snapshot_gone = copy_forget,
};
