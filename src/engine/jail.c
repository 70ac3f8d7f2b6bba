// SPDX-License-Identifier: Apache-2.0
/*
 * The jail engine: a guest as the broker sees it.
 *
 *	starting --> running --> ended
 *	    +-----------+----------+--> removed, in four steps --> (freed)
 *
 * It begins in guest_begin.c, by the steps of start_steps.c, and goes in guest_removal.c. Here is
 *what is asked of one that runs, of one that an earlier broker has started, and of all.
 */
#include "engine/guest/guest.h"

#include "base/fd.h"
#include "base/log.h"
#include "engine/door/egress_door.h"
#include "engine/guest/agent_handover.h"
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
#include "engine/vm/copy.h"
#include "engine/vm/kernel.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>

int jail_adopt(const char *id, guest_ended_fn ended, void *arg, struct guest **ret,
               struct guest_spec *ret_spec, struct err *err)
{
	auto_fd int dir_fd = -1, pidfd = -1;
	struct guest_record record;
	struct guest *g;
	int r;

	if (!id_is_valid(id, "sb"))
		return err_set(err, ERR_BAD_REQUEST, EINVAL, "not a sandbox's id");
	dir_fd =
		openat(jail_host.sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = dir_fd < 0 ? -errno : guest_record_read(dir_fd, id, &record);
	if (r == 0)
		r = guest_record_open_process(&record, &pidfd);
	if (r == -EPROTONOSUPPORT) {
		struct guest_spec spec = {0};

		/* It may live: leave() must not take the layers from under it. */
		(void)snprintf(spec.id, sizeof(spec.id), "%s", id);
		(void)guest_new(&spec, GUEST_FOREIGN);
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "the record of '%s' has version %u, this cloche knows %d to %d", id,
		              record.version, GUEST_RECORD_OLDEST, GUEST_RECORD_VERSION);
		return r;
	}
	if (r < 0) {
		guest_remove_found(id);
		if (r == -EPROTO)
			return err_set(
				err, ERR_INTERNAL, EPROTO,
				"its record 'sandboxes/%s/record' is damaged, so it is ended", id);
		return err_set(err, ERR_GONE, ESRCH, "'%s' is dead", id);
	}
	g = guest_new(&record.spec, GUEST_RUNNING);
	r = loop_child_add(jail_host.loop, pidfd, guest_on_exit, g, &g->child);
	if (r < 0) {
		list_remove(&g->link);
		guest_free(jail_host.loop, g);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch '%s'", id);
	}
	(void)take_fd(&pidfd);
	g->pid = record.pid;
	spawner_find(&jail_host.spawner, g->pid);
	g->dir_fd = take_fd(&dir_fd);
	disk_snapshot_adopt(g);
	g->ended = ended;
	g->arg = arg;
	*ret = g;
	*ret_spec = record.spec;
	return 0;
}

int jail_usage(struct guest *g, struct guest_usage *ret, struct err *err)
{
	(void)err;
	*ret = (struct guest_usage){0};
	cgroup_usage(&jail_host.cgroups, g->spec.id, ret);
	ret->disk_bytes = disk_snapshot_usage(g->spec.id);
	return 0;
}

int jail_connect(struct guest *g, int *ret_fd, struct err *err)
{
	const struct sockaddr_un addr = guest_agent_address(g);
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	if (fd < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a socket");
	r = connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	if (r == -ECONNREFUSED && agent_handover_recover(g, err) == 0)
		r = connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	if (r < 0)
		return err_set(err, ERR_UNAVAILABLE, -r, "cannot connect to the agent");
	*ret_fd = take_fd(&fd);
	return 0;
}

static int jail_set_limits(struct guest *g, const struct guest_limits *limits, struct err *err)
{
	struct guest_spec wanted = g->spec;
	cpu_set_t cpus;
	int r;

	wanted.limits = *limits;
	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	r = cgroup_set_limits(&jail_host.cgroups, g->spec.id, limits, err);
	if (r == 0)
		r = storage_limit(&jail_host.storage, g->spec.id, disk_snapshot_limit(&wanted),
		                  err);
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

void jail_shortage(struct guest *g, struct guest_shortage *ret)
{
	cgroup_shortage(&jail_host.cgroups, g->spec.id, ret);
}

int jail_freeze(struct guest *g, bool on, struct err *err)
{
	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	return disk_snapshot_freeze(g, on, err);
}

static int jail_fork(struct guest *g, const char *tag, guest_forked_fn forked, void *arg,
                     struct err *err)
{
	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	/* A copy's user namespace is not one that a zygote can enter. */
	if (g->spec.with_memory)
		return err_set(err, ERR_UNSUPPORTED, 0, "a copy of a memory takes no forks");
	return zygote_fork(zygotes_take(&jail_host.zygotes, &g->spec.image), g->spec.id, g->pid,
	                   g->spec.limits.nofile, tag, forked, arg, err);
}

static void jail_weigh(const char *id, uint64_t owner, uint32_t weight, bool is_ahead)
{
	list_for_each (&jail_host.guests, struct guest, g, link)
		if (strcmp(g->spec.id, id) == 0)
			weigh_assign(&jail_host.weigh, g, owner, weight, is_ahead);
}

static void jail_each_kept(void (*fn)(const char *id, uint64_t keeper, void *arg), void *arg)
{
	kept_layer_each(&jail_host.storage, fn, arg);
}

struct sweep {
	bool (*is_known)(const char *id, void *arg);
	void *arg;
};

static void sweep_id(const char *id, void *arg)
{
	const struct sweep *s = arg;

	if (s->is_known(id, s->arg))
		return;
	list_for_each (&jail_host.guests, struct guest, g, link)
		if (strcmp(g->spec.id, id) == 0)
			return; /* found before, or being removed */
	log_debug("jail.swept", "id=%s", id);
	guest_remove_found(id);
}

/* One that is kept waits for the gateway's word. */
static void sweep_layer(const char *id, void *arg)
{
	uint64_t keeper;

	if (kept_layer_read(&jail_host.storage, id, &keeper) == 0)
		sweep_id(id, arg);
}

static void jail_sweep(bool (*is_known)(const char *id, void *arg), void *arg)
{
	struct sweep s = {is_known, arg};
	struct err err;

	image_build_sweep();
	backup_sweep();
	disk_snapshots_sweep();
	volumes_sweep();
	/* Ahead of the first start, which says why if it cannot be. */
	if (spawner_need(&jail_host.spawner, &err) < 0)
		log_debug("jail.no_spawner", "error='%s'", err.message);
	else
		zygotes_start(&jail_host.zygotes);
	dir_tree_each_id(jail_host.sandboxes_fd, sweep_id, &s);
	dir_tree_each_id(jail_host.storage.fd, sweep_layer, &s);
	cgroup_each(&jail_host.cgroups, sweep_id, &s);
}

static int jail_sync_layers(int *ret_pidfd)
{
	int r = kept_layer_sync_start(&jail_host.storage, ret_pidfd);

	return r < 0 ? r : 0;
}

static void jail_leave(void)
{
	bool is_over = list_empty(&jail_host.guests);

	image_build_end_all();
	backup_leave();
	disk_snapshots_close();
	copies_close();
	memory_leave();
	criu_close();
	/* The handles go, the guests stay: the next broker adopts them. */
	list_for_each (&jail_host.guests, struct guest, g, link) {
		loop_io_removep(&g->status_io);
		loop_child_remove(g->child);
		loop_child_remove(g->worker);
		list_remove(&g->link);
		guest_free(jail_host.loop, g);
	}
	jail_host_close(is_over);
}

static void jail_condition(struct engine_condition *ret)
{
	struct statvfs layers;

	*ret = (struct engine_condition){.zygote_deaths = zygotes_deaths(&jail_host.zygotes)};
	if (fstatvfs(jail_host.storage.fd, &layers) == 0)
		ret->layers_are_read_only = (layers.f_flag & ST_RDONLY) != 0;
}

const struct engine jail_engine = {
	.name = "jail",
	.probe = jail_host_open,
	.leave = jail_leave,
	.isolation = jail_isolation,
	.disk = jail_disk,
	.start = jail_start,
	.adopt = jail_adopt,
	.connect = jail_connect,
	.set_limits = jail_set_limits,
	.usage = jail_usage,
	.shortage = jail_shortage,
	.freeze = jail_freeze,
	.open_door = egress_door_open,
	.close_door = egress_door_close,
	.dial = egress_door_dial,
	.fork = jail_fork,
	.kill = jail_kill,
	.discard = jail_discard,
	.each_kept = jail_each_kept,
	.build_image = image_build_start,
	.cancel_image_build = image_build_cancel,
	.each_image = jail_each_image,
	.remove_image = jail_remove_image,
	.snapshot = disk_snapshot_take,
	.discard_snapshot = disk_snapshot_discard,
	.each_snapshot = disk_snapshot_each,
	.make_volume = volume_make,
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
