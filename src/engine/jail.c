// SPDX-License-Identifier: Apache-2.0
/*
 * The jail engine, and the calls that concern all guests together. A guest's life is in
 * engine/guest, and the start of a jail in jail_start.c.
 */
#include "engine/jail_host.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/door/egress_door.h"
#include "engine/guest/backup.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/guest_record.h"
#include "engine/guest/machine_view.h"
#include "engine/guest/volume.h"
#include "engine/jail/memory/criu.h"
#include "engine/jail/memory/memory.h"
#include "engine/layer/kept_layer.h"
#include "engine/linux/dir_tree.h"
#include "engine/template/image_build.h"
#include "engine/template/image_exchange.h"
#include "engine/template/seal_key.h"
#include "engine/template/sealed_file.h"
#include "engine/vm/boot/kernel.h"
#include "engine/vm/copy.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>

static struct isolation jail_isolation(struct guest_host *host, const struct guest *g)
{
	struct isolation ret = guest_isolation(host);
	struct err ignored;

	(void)g;
	ret.engine = jail_engine.number;
	ret.grade = GRADE_PROCESS;
	if (criu_probe(host, &ignored) < 0)
		ret.gaps |= BIT(WALL_MEMORY_SNAPSHOTS);
	return ret;
}

static int jail_set_limits(struct guest *g, const struct guest_limits *limits, struct err *err)
{
	struct guest_spec wanted = g->spec;
	cpu_set_t cpus;
	int r;

	wanted.limits = *limits;
	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	r = cgroup_set_limits(&g->host->cgroups, g->spec.id, limits, err);
	if (r == 0)
		r = storage_limit(&g->host->storage, g->spec.id,
		                  disk_snapshot_limit(g->host, &wanted), err);
	if (r == 0 && g->machine_view_fd >= 0)
		r = machine_view_update(g->machine_view_fd, limits, err);
	if (r < 0)
		return r;
	g->spec.limits = *limits;
	/* New execs inherit it from the agent. */
	machine_view_pick_cpus(g->spec.slot, limits, &cpus);
	(void)sched_setaffinity(g->pid, sizeof(cpus), &cpus);
	return guest_record_write(g->dir_fd, &g->spec, g->pid, err);
}

static int jail_fork(struct guest *g, const char *tag, guest_forked_fn forked, void *arg,
                     struct err *err)
{
	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	/* A zygote cannot enter the user namespace of a copy. */
	if (g->spec.with_memory)
		return err_set(err, ERR_UNSUPPORTED, 0, "a copy of a memory takes no forks");
	return zygote_fork(zygotes_take(g->host->zygotes, &g->spec.image), g->spec.id, g->pid,
	                   kernel_share_open_files(g->host->shares, g->spec.limits.open_files,
	                                           g->spec.limits.pids),
	                   tag, forked, arg, err);
}

static void jail_weigh(struct guest_host *host, const char *id, uint64_t owner, uint32_t weight,
                       bool is_ahead)
{
	list_for_each (&host->guests, struct guest, g, link)
		if (strcmp(g->spec.id, id) == 0)
			weigh_assign(&host->weigh, g, owner, weight, is_ahead);
}

static void jail_each_kept(struct guest_host *host,
                           void (*fn)(const char *id, uint64_t keeper, void *arg), void *arg)
{
	kept_layer_each(&host->storage, fn, arg);
}

struct sweep {
	struct guest_host *host;
	bool (*is_known)(const char *id, void *arg);
	void *arg;
};

static void sweep_id(const char *id, void *arg)
{
	const struct sweep *s = arg;

	if (s->is_known(id, s->arg))
		return;
	list_for_each (&s->host->guests, struct guest, g, link)
		if (strcmp(g->spec.id, id) == 0)
			return; /* found before, or being removed */
	log_debug("jail.swept", "id=%s", id);
	guest_remove_found(s->host, id);
}

/* A kept layer stays until the gateway decides. */
static void sweep_layer(const char *id, void *arg)
{
	const struct sweep *s = arg;
	uint64_t keeper;

	if (kept_layer_read(&s->host->storage, id, &keeper) == 0)
		sweep_id(id, arg);
}

static void jail_sweep(struct guest_host *host, bool (*is_known)(const char *id, void *arg),
                       void *arg)
{
	struct sweep s = {host, is_known, arg};
	struct err err;

	image_build_sweep(host);
	backup_sweep(host);
	disk_snapshots_sweep(host);
	volumes_sweep(host);
	/* Started ahead of the first guest; if this fails, that guest's start reports why. */
	if (spawner_need(&host->spawner, &err) < 0)
		log_debug("jail.no_spawner", "error='%s'", err.message);
	else
		zygotes_start(host->zygotes);
	dir_tree_each_id(host->sandboxes_fd, sweep_id, &s);
	dir_tree_each_id(host->storage.fd, sweep_layer, &s);
	cgroup_each(&host->cgroups, sweep_id, &s);
}

static int jail_sync_layers(struct guest_host *host, int *ret_pidfd)
{
	int r = kept_layer_sync_start(&host->storage, ret_pidfd);

	return r < 0 ? r : 0;
}

static void jail_leave(struct guest_host *host)
{
	bool is_over = list_empty(&host->guests);

	image_exchange_end_all(host);
	sealed_files_end_all(host);
	image_build_end_all(host);
	backup_leave(host);
	volume_copies_close();
	disk_snapshots_close(host);
	copies_close();
	memory_leave();
	criu_close();
	/* The handles are freed, but the guests stay: the next broker adopts them. */
	list_for_each (&host->guests, struct guest, g, link) {
		loop_io_removep(&g->status_io);
		loop_child_remove(g->child);
		loop_child_remove(g->worker);
		list_remove(&g->link);
		guest_free(host->loop, g);
	}
	jail_host_close(host, is_over);
}

static void jail_condition(struct guest_host *host, struct engine_condition *ret)
{
	struct statvfs layers;

	*ret = (struct engine_condition){.zygote_deaths = zygotes_deaths(host->zygotes)};
	if (fstatvfs(host->storage.fd, &layers) == 0)
		ret->layers_are_read_only = (layers.f_flag & ST_RDONLY) != 0;
}

const struct engine jail_engine = {
	.name = "jail",
	.number = ENGINE_BASE,
	.traits = {.has_volumes = true, .spare_us = 50 * MILLISECOND_US, .spare_bytes = 24 * MIB},
	.kind = &jail_kind,
	.probe = jail_host_open,
	.leave = jail_leave,
	.isolation = jail_isolation,
	.disk = jail_disk,
	.start = guest_start,
	.adopt = guest_adopt,
	.connect = guest_connect,
	.set_limits = jail_set_limits,
	.usage = guest_read_usage,
	.shortage = guest_read_shortage,
	.freeze = guest_freeze,
	.open_door = egress_door_open,
	.close_door = egress_door_close,
	.dial = egress_door_dial,
	.fork = jail_fork,
	.kill = guest_kill,
	.discard = guest_discard,
	.each_kept = jail_each_kept,
	.build_image = image_build_start,
	.cancel_image_build = image_build_cancel,
	.each_image = jail_each_image,
	.remove_image = jail_remove_image,
	.share_image = image_share,
	.fetch_image = image_fetch,
	.take_image = image_take,
	.drop_image = image_drop,
	.open_sealed = sealed_file_open,
	.close_sealed = sealed_file_close,
	.drop_sealed = sealed_file_drop,
	.gateway_key = seal_derive_gateway_key,
	.snapshot = disk_snapshot_take,
	.discard_snapshot = disk_snapshot_discard,
	.each_snapshot = disk_snapshot_each,
	.make_volume = volume_make,
	.copy_volume = volume_copy,
	.discard_volume = volume_discard,
	.each_volume = volume_each,
	.freeze_kept = backup_freeze,
	.release_kept = backup_release,
	.sync_layers = jail_sync_layers,
	.set_owner = jail_set_owner,
	.weigh = jail_weigh,
	.set_kernel = kernel_choose,
	.condition = jail_condition,
	.sweep = jail_sweep,
};
