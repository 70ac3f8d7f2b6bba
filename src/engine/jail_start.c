// SPDX-License-Identifier: Apache-2.0
/*
 * The start of a jail: its own steps, and the table of all steps. The spawner clones the child
 * meanwhile; the child waits for its orders. A copy with memory has no such child: a founder
 * (jail_child.h) makes the root, and CRIU restores the processes in it.
 */
#include "engine/jail_host.h"

#include "base/fd.h"
#include "base/units.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/guest_kind.h"
#include "engine/guest/machine_view.h"
#include "engine/guest/volume.h"
#include "engine/jail/memory/agent_handover.h"
#include "engine/jail/memory/criu.h"
#include "engine/jail/memory/memory.h"
#include "engine/layer/own_tmpfs.h"
#include "engine/linux/namespaces.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define LINE_US (600 * SECOND_US) /* until a copy's turn comes (memory_revive.c) */

static bool is_copy(const struct guest_spec *spec)
{
	return spec->with_memory != MEMORY_NONE;
}

static int make_machine_view(struct start *s, struct err *err)
{
	machine_view_pick_cpus(s->g->spec.slot, &s->g->spec.limits, &s->jail.orders.cpus);
	return machine_view_make(&s->g->spec.limits, &s->g->machine_view_fd, err);
}

static int mount_disk_snapshot(struct start *s, size_t i, int userns_fd, struct err *err)
{
	const char *id = s->g->spec.shown[i];
	auto_fd int fd = -1;
	int r = id[0] ? disk_snapshot_open_files(s->g->host, id, &s->g->spec.image, &fd, err) : 0;

	if (r < 0 || !id[0])
		return r;
	return namespaces_idmapped_mount(fd, userns_fd, /* is_read_only= */ true,
	                                 &s->jail.disk_snapshot_fds[i], err);
}

static int mount_volume(struct start *s, size_t i, int userns_fd, struct err *err)
{
	const struct guest_volume *v = &s->g->spec.volumes[i];
	auto_fd int fd = -1;
	int r = v->id[0] ? volume_open(s->g->host, v->id, &fd, err) : 0;

	if (r < 0 || !v->id[0])
		return r;
	return namespaces_idmapped_mount(fd, userns_fd, v->is_read_only != 0,
	                                 &s->jail.volume_fds[i], err);
}

static int make_mounts(struct start *s, int userns_fd, struct err *err)
{
	const struct digest *image = &s->g->spec.image;
	const bool is_shown = s->g->spec.shows != SHOWS_NOTHING;
	int image_fd = -1, r = 0;
	struct {
		int dir_fd;
		bool is_read_only;
	} sources[] = {
		[JAIL_MOUNT_TEMPLATE] = {s->g->host->template_fd, true},
		[JAIL_MOUNT_BASE] = {s->g->host->usr_fd, true},
		[JAIL_MOUNT_LAYER] = {s->layer_fd, false},
	};

	if (!digest_is_zero(image))
		r = images_mount(&s->g->host->images, image, &image_fd, err);
	for (size_t i = 0; r == 0 && i < SHOWN_MAX; i++)
		r = mount_disk_snapshot(s, i, userns_fd, err);
	for (size_t i = 0; r == 0 && i < VOLUMES_MAX; i++)
		r = mount_volume(s, i, userns_fd, err);
	if (r == 0 && is_shown)
		r = namespaces_idmapped_mount(image_fd, userns_fd, true, &s->jail.shown_fd, err);
	else if (image_fd >= 0)
		sources[JAIL_MOUNT_BASE].dir_fd = image_fd;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(sources); i++)
		r = namespaces_idmapped_mount(sources[i].dir_fd, userns_fd, sources[i].is_read_only,
		                              &s->jail.mounts[i], err);
	if (r < 0)
		return r;
	if (is_copy(&s->g->spec)) /* the view itself can be attached once only: not by the founder
	                           */
		return own_tmpfs_make_sealed(&s->jail.mounts[JAIL_MOUNT_MACHINE_VIEW], err);
	s->jail.mounts[JAIL_MOUNT_MACHINE_VIEW] = fcntl(s->g->machine_view_fd, F_DUPFD_CLOEXEC, 0);
	if (s->jail.mounts[JAIL_MOUNT_MACHINE_VIEW] < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot duplicate the machine view");
	return r;
}

/* The child joins its groups itself (cgroup_open_join()). A founder joins none: the copy does. */
static int open_groups(struct start *s, struct err *err)
{
	int r = is_copy(&s->g->spec) ? 0
	                             : cgroup_open_join(&s->g->host->cgroups, s->g->spec.id,
	                                                s->jail.join_fds, err);

	if (r < 0)
		return r;
	s->jail.orders.n_join_fds = (uint32_t)r;
	return 0;
}

/* The signal to go. */
static int send_orders(struct start *s, struct err *err)
{
	const size_t n_join = s->jail.orders.n_join_fds;
	size_t n_fds = JAIL_MOUNT_COUNT + 1;
	int fds[JAIL_ORDER_FDS], r;
	char path[48];
	auto_fd int userns_fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)s->child.pid);
	userns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (userns_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the user namespace");
	r = make_mounts(s, userns_fd, err);
	if (r < 0)
		return r;
	memcpy(fds, s->jail.mounts, sizeof(s->jail.mounts));
	fds[JAIL_MOUNT_COUNT] = s->jail.listen_fd;
	memcpy(fds + n_fds, s->jail.join_fds, n_join * sizeof(int));
	n_fds += n_join;
	memcpy(fds + n_fds, s->jail.user_fds, s->jail.n_user_fds * sizeof(int));
	n_fds += s->jail.n_user_fds;
	s->jail.orders.spec = s->g->spec;
	for (size_t i = 0; i < VOLUMES_MAX; i++)
		if (s->jail.volume_fds[i] >= 0)
			fds[n_fds++] = s->jail.volume_fds[i];
	for (size_t i = 0; i < SHOWN_MAX; i++)
		if (s->jail.disk_snapshot_fds[i] >= 0)
			fds[n_fds++] = s->jail.disk_snapshot_fds[i];
	if (s->jail.shown_fd >= 0)
		fds[n_fds++] = s->jail.shown_fd;
	/* It does this itself, too. Here it sleeps, so no CPU has to be stopped to move it. */
	(void)sched_setaffinity(s->child.pid, sizeof(s->jail.orders.cpus), &s->jail.orders.cpus);
	n = fd_send(s->go_fd, &s->jail.orders, sizeof(s->jail.orders), fds, n_fds);
	return n < 0 ? err_set(err, ERR_INTERNAL, (int)-n, "cannot send the orders") : 0;
}

/* What was made for the child is given to the revival of the copy. */
static int revive(struct start *s, struct err *err)
{
	struct memory_ground ground = {.pid = s->child.pid, .cpus = s->jail.orders.cpus};
	int images_fd, r;

	if (!is_copy(&s->g->spec))
		return 0;
	r = disk_snapshot_open_memory(s->g->host, s->g->spec.snapshot, &images_fd, err);
	if (r < 0)
		return r;
	ground.pidfd = take_fd(&s->child.pidfd);
	ground.go_fd = take_fd(&s->go_fd);
	ground.listen_fd = take_fd(&s->jail.listen_fd);
	ground.ready_fd = take_fd(&s->jail.status_fd);
	return memory_revive(s->g, images_fd, &ground, s->on_exit, s->failed, err);
}

static const struct start_step steps[] = {
	{"directory", start_make_dir},
	{"pipes", start_make_pipes},
	{"spawner", start_ask_spawner}, /* which clones while the next steps are done */
	{"cgroups", start_make_groups},
	{"layer", start_make_layer},
	{"machine-view", make_machine_view},
	{"clone", start_take_child}, /* the child waits for the last step */
	{"listener", start_listen},
	{"groups", open_groups}, /* joined by the child */
	{"copy", start_await_copy},
	{"record", start_write_record}, /* from here on a later broker can find it */
	{"orders", send_orders},
	{"memory", revive}, /* of a copy, which has no child of its own yet */
	{NULL, NULL},
};

static int check(struct guest_host *host, const struct guest_spec *spec, struct err *err)
{
	int fd;

	return digest_is_zero(&spec->image) ? 0
	                                    : images_mount(&host->images, &spec->image, &fd, err);
}

static enum spawner_kind child(const struct guest_spec *spec)
{
	return is_copy(spec) ? SPAWNER_FOUNDER : SPAWNER_GUEST;
}

static uint64_t start_max_us(const struct guest_spec *spec)
{
	return is_copy(spec) ? LINE_US : GUEST_START_US;
}

static void serves(struct guest *g)
{
	if (is_copy(&g->spec))
		agent_handover_forget(g);
}

static void suspect_zygote(struct guest *g)
{
	struct zygote *z = zygotes_find(g->host->zygotes, &g->spec.image);

	if (z)
		zygote_suspect(z, "a sandbox cannot end");
}

const struct guest_kind jail_kind = {
	.steps = steps,
	.check = check,
	.child = child,
	.start_max_us = start_max_us,
	.recover = agent_handover_recover,
	.serves = serves,
	.stuck = suspect_zygote,
	.check_memory = criu_probe,
	.save = memory_save,
	.saved = memory_remember_whole,
	.release = memory_release,
	.go_on = memory_go_on,
	.drop = memory_drop,
};
