// SPDX-License-Identifier: Apache-2.0
/*
 * How a guest comes up, as the broker sees it: the table at the end, in its order. Each step makes
 * one host object that removal finds again by the sandbox's id. The spawner clones the child while
 * we go on; the child waits for the last step. What is only for the child is closed here when all
 * is done or failed. A layer that is a copy is made meanwhile, too (disk_snapshot.h): where it is
 * needed, the start stands still until it is there.
 */
#include "engine/guest/guest.h"

#include "base/fd.h"
#include "engine/guest/child_orders.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/guest_record.h"
#include "engine/guest/machine_view.h"
#include "engine/guest/spawner.h"
#include "engine/guest/start_steps.h"
#include "engine/guest/volume.h"
#include "engine/jail/memory/memory.h"
#include "engine/layer/kept_layer.h"
#include "engine/linux/namespaces.h"
#include "engine/vm/shown.h"
#include "engine/vm/start.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LISTEN_BACKLOG 16

/* Of a jail's memory: its processes are not begun here, only what they stand on. */
static bool is_copy(const struct start *s)
{
	return s->g->spec.with_memory != MEMORY_NONE && s->g->spec.engine == ENGINE_JAIL;
}

static int make_dir(struct start *s, struct err *err)
{
	struct guest *g = s->g;

	if (mkdirat(jail_host.sandboxes_fd, g->spec.id, 0700) < 0)
		return err_set(err, errno == EEXIST ? ERR_CONFLICT : ERR_INTERNAL, errno,
		               "cannot make the sandbox's run directory");
	g->dir_fd = openat(jail_host.sandboxes_fd, g->spec.id,
	                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (g->dir_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the run directory");
	return 0;
}

static int make_layer(struct start *s, struct err *err)
{
	const struct guest_spec *spec = &s->g->spec;
	int r;

	if (spec->snapshot[0])
		return 0; /* await_copy() */
	if (spec->is_resumed)
		return kept_layer_reopen(&jail_host.storage, spec->id, disk_snapshot_limit(spec),
		                         &s->layer_fd, err);
	r = storage_make(&jail_host.storage, spec->id, spec->limits.disk_bytes, &s->layer_fd, err);
	return r == 0 && spec->keeper ? kept_layer_mark(s->layer_fd, spec->keeper, err) : r;
}

static int await_copy(struct start *s, struct err *err)
{
	if (!s->g->spec.snapshot[0])
		return 0;
	return s->g->worker ? 1 : disk_snapshot_open_clone(s->g, &s->layer_fd, err);
}

struct guest_limits guest_group_limits(const struct guest_spec *spec)
{
	return spec->engine == ENGINE_VM ? vm_group_limits(&spec->limits) : spec->limits;
}

static int make_groups(struct start *s, struct err *err)
{
	const struct guest_limits limits = guest_group_limits(&s->g->spec);
	int r = cgroup_make(&jail_host.cgroups, s->g->spec.id, &limits, err);

	if (r == 0)
		r = cgroup_open_user(&jail_host.cgroups, s->g->spec.id, s->jail.user_fds, err);
	if (r < 0)
		return r;
	s->jail.n_user_fds = (size_t)r;
	return 0;
}

static int make_share(struct start *s, struct err *err)
{
	machine_view_pick_cpus(s->g->spec.slot, &s->g->spec.limits, &s->jail.orders.cpus);
	return machine_view_make(&s->g->spec.limits, &s->g->machine_view_fd, err);
}

static int make_pipes(struct start *s, struct err *err)
{
	int status[2], go[2];

	if (pipe2(status, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a pipe");
	s->g->status_fd = status[0];
	s->jail.status_fd = status[1];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, go) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a socket pair");
	s->go_fd = go[0];
	s->jail.go_fd = go[1];
	if (fd_set_nonblock(s->g->status_fd, true) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot set up a pipe");
	return 0;
}

/* An address in our run directory, whatever the length of its path. */
struct sockaddr_un guest_agent_address(const struct guest *g)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/" GUEST_AGENT_SOCKET,
	               g->dir_fd);
	return addr;
}

static int ask_spawner(struct start *s, struct err *err)
{
	int r;

	if (!is_copy(s))
		s->agent_group_fd = cgroup_open_agent(&jail_host.cgroups, s->g->spec.id);
	r = spawner_ask(&jail_host.spawner,
	                s->g->spec.engine == ENGINE_VM ? SPAWNER_VM
	                : is_copy(s)                   ? SPAWNER_FOUNDER
	                                               : SPAWNER_GUEST,
	                s->g->spec.slot, s->jail.go_fd, s->jail.status_fd, s->agent_group_fd, err);
	s->is_asked = r == 0;
	return r;
}

/* The spawner died before it answered. What it may have made ends with the pipes that it was given.
 */
static int ask_again(struct start *s, struct hatched *ret, struct err *err)
{
	int r;

	close_fd(&s->go_fd);
	close_fd(&s->jail.go_fd);
	close_fd(&s->jail.status_fd);
	close_fd(&s->g->status_fd);
	close_fd(&s->agent_group_fd);
	r = make_pipes(s, err);
	if (r == 0)
		r = ask_spawner(s, err);
	return r < 0 ? r : spawner_take(&jail_host.spawner, ret, err);
}

static int take_child(struct start *s, struct err *err)
{
	int r = spawner_take(&jail_host.spawner, &s->child, err);

	if (r == -ECONNRESET || r == -EPIPE)
		r = ask_again(s, &s->child, err);
	s->is_asked = false;
	if (r < 0)
		return r;
	s->jail.listen_fd = s->child.socket_fd;
	close_fd(&s->jail.go_fd);
	if (is_copy(s))
		return 0;
	/* Only the child has these now, and they end with it. */
	close_fd(&s->jail.status_fd);
	s->g->pid = s->child.pid;
	r = loop_child_take(jail_host.loop, take_fd(&s->child.pidfd), s->on_exit, s->g,
	                    &s->g->child);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch the jail's process") : 0;
}

/* The socket is of the sandbox's net namespace: the agent must not hold one of the host's. */
static int listen_for_agent(struct start *s, struct err *err)
{
	const struct sockaddr_un addr = guest_agent_address(s->g);
	int fd = s->jail.listen_fd;

	if (bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    fchmodat(s->g->dir_fd, GUEST_AGENT_SOCKET, 0600, 0) < 0 ||
	    listen(fd, LISTEN_BACKLOG) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the agent's socket");
	return 0;
}

static int join_groups(struct start *s, struct err *err)
{
	return is_copy(s) ? 0
	                  : cgroup_join_agent(&jail_host.cgroups, s->g->spec.id, s->g->pid, err);
}

static int write_record(struct start *s, struct err *err)
{
	return is_copy(s) ? 0 : guest_record_write(s->g->dir_fd, &s->g->spec, s->g->pid, err);
}

static int mount_disk_snapshot(struct start *s, size_t i, int userns_fd, struct err *err)
{
	const char *id = s->g->spec.shown[i];
	auto_fd int fd = -1;
	int r = id[0] ? disk_snapshot_open_files(id, &s->g->spec.image, &fd, err) : 0;

	if (r < 0 || !id[0])
		return r;
	return namespaces_idmapped_mount(fd, userns_fd, /* is_read_only= */ true,
	                                 &s->jail.disk_snapshot_fds[i], err);
}

static int mount_volume(struct start *s, size_t i, int userns_fd, struct err *err)
{
	const struct guest_volume *v = &s->g->spec.volumes[i];
	auto_fd int fd = -1;
	int r = v->id[0] ? volume_open(v->id, &fd, err) : 0;

	if (r < 0 || !v->id[0])
		return r;
	return namespaces_idmapped_mount(fd, userns_fd, v->is_read_only != 0,
	                                 &s->jail.volume_fds[i], err);
}

static int make_mounts(struct start *s, int userns_fd, struct err *err)
{
	const struct digest *image = &s->g->spec.image;
	const bool is_shown = s->g->spec.is_shown;
	int image_fd = -1, r = 0;
	struct {
		int dir_fd;
		bool is_read_only;
	} sources[] = {
		[JAIL_MOUNT_TEMPLATE] = {jail_host.template_fd, true},
		[JAIL_MOUNT_BASE] = {jail_host.usr_fd, true},
		[JAIL_MOUNT_LAYER] = {s->layer_fd, false},
	};

	if (!digest_is_zero(image))
		r = images_mount(&jail_host.images, image, &image_fd, err);
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
	if (is_copy(s)) /* the share itself can be attached once only: not by the founder */
		r = shared_tmpfs_copy(&jail_host.shared_tmpfs, &s->jail.mounts[JAIL_MOUNT_SHARE],
		                      err);
	else if ((s->jail.mounts[JAIL_MOUNT_SHARE] =
	                  fcntl(s->g->machine_view_fd, F_DUPFD_CLOEXEC, 0)) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot duplicate the share");
	if (r < 0)
		return r;
	return shared_tmpfs_copy(&jail_host.shared_tmpfs, &s->jail.mounts[JAIL_MOUNT_SHARED_TMPFS],
	                         err);
}

/* The signal to go. */
static int send_orders(struct start *s, struct err *err)
{
	size_t n_fds = JAIL_MOUNT_COUNT + 1 + s->jail.n_user_fds;
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
	memcpy(fds + JAIL_MOUNT_COUNT + 1, s->jail.user_fds, s->jail.n_user_fds * sizeof(int));
	s->jail.orders.spec = s->g->spec;
	for (size_t i = 0; i < VOLUMES_MAX; i++)
		if (s->jail.volume_fds[i] >= 0)
			fds[n_fds++] = s->jail.volume_fds[i];
	for (size_t i = 0; i < SHOWN_MAX; i++)
		if (s->jail.disk_snapshot_fds[i] >= 0)
			fds[n_fds++] = s->jail.disk_snapshot_fds[i];
	if (s->jail.shown_fd >= 0)
		fds[n_fds++] = s->jail.shown_fd;
	n = fd_send(s->go_fd, &s->jail.orders, sizeof(s->jail.orders), fds, n_fds);
	return n < 0 ? err_set(err, ERR_INTERNAL, (int)-n, "cannot send the orders") : 0;
}

/* What was made for the child is for the copy, and goes with its revival. */
static int revive(struct start *s, struct err *err)
{
	struct memory_ground ground = {.pid = s->child.pid, .cpus = s->jail.orders.cpus};
	int images_fd, r;

	if (!is_copy(s))
		return 0;
	r = disk_snapshot_open_memory(s->g->spec.snapshot, &images_fd, err);
	if (r < 0)
		return r;
	ground.pidfd = take_fd(&s->child.pidfd);
	ground.go_fd = take_fd(&s->go_fd);
	ground.listen_fd = take_fd(&s->jail.listen_fd);
	ground.ready_fd = take_fd(&s->jail.status_fd);
	return memory_revive(s->g, images_fd, &ground, s->on_exit, s->failed, err);
}

struct start_step {
	const char *name;
	int (*run)(struct start *s, struct err *err);
};

static const struct start_step jail_steps[] = {
	{"directory", make_dir},
	{"pipes", make_pipes},
	{"spawner", ask_spawner}, /* which clones while the next steps are done */
	{"cgroups", make_groups},
	{"layer", make_layer},
	{"share", make_share},
	{"clone", take_child}, /* the child waits for the last step */
	{"listener", listen_for_agent},
	{"groups", join_groups},
	{"copy", await_copy},
	{"record", write_record}, /* from here on a later broker can find it */
	{"orders", send_orders},
	{"memory", revive}, /* of a copy, which has no child of its own yet */
	{NULL, NULL},
};

static const struct start_step vm_steps[] = {
	{"machine", vm_open_machine}, /* before anything is made: most hosts lack something */
	{"directory", make_dir},        {"pipes", make_pipes},
	{"spawner", ask_spawner},       {"cgroups", make_groups},
	{"layer", make_layer},          {"clone", take_child},
	{"listener", listen_for_agent}, {"groups", join_groups},
	{"copy", await_copy},           {"disk", vm_make_disk},
	{"shown", shown_clone},         {"record", write_record},
	{"orders", vm_send_orders},     {NULL, NULL},
};

static void start_free(struct start *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->vm_fds); i++)
		close_fd(&s->vm_fds[i]);
	close_fd(&s->layer_fd);
	close_fd(&s->go_fd);
	close_fd(&s->agent_group_fd);
	close_fd(&s->jail.go_fd);
	close_fd(&s->jail.status_fd);
	close_fd(&s->jail.listen_fd);
	close_fd(&s->jail.shown_fd);
	for (size_t i = 0; i < SHOWN_MAX; i++)
		close_fd(&s->jail.disk_snapshot_fds[i]);
	for (size_t i = 0; i < VOLUMES_MAX; i++)
		close_fd(&s->jail.volume_fds[i]);
	close_fd(&s->child.pidfd);
	for (size_t i = 0; i < s->jail.n_user_fds; i++)
		close_fd(&s->jail.user_fds[i]);
	for (size_t i = 0; i < JAIL_MOUNT_COUNT; i++)
		close_fd(&s->jail.mounts[i]);
	free(s);
}

static struct start *start_new(struct guest *g)
{
	struct start *s = xnew0(struct start);

	*s = (struct start){
		.g = g,
		.next = g->spec.engine == ENGINE_VM ? vm_steps : jail_steps,
		.child = {.pidfd = -1, .socket_fd = -1},
		.layer_fd = -1,
		.go_fd = -1,
		.agent_group_fd = -1,
		.jail = {.go_fd = -1, .status_fd = -1, .listen_fd = -1, .shown_fd = -1}};
	for (size_t i = 0; i < JAIL_MOUNT_COUNT; i++)
		s->jail.mounts[i] = -1;
	for (size_t i = 0; i < ARRAY_SIZE(s->vm_fds); i++)
		s->vm_fds[i] = -1;
	for (size_t i = 0; i < SHOWN_MAX; i++)
		s->jail.disk_snapshot_fds[i] = -1;
	for (size_t i = 0; i < VOLUMES_MAX; i++)
		s->jail.volume_fds[i] = -1;
	return s;
}

static int run_steps(struct start *s, struct err *err)
{
	struct err ignored;
	int r = 0;

	while (r == 0 && s->next->run) {
		r = s->next->run(s, err);
		if (r < 0 && err->code == ERR_INTERNAL)
			err_prefix(err, "start step '%s'", s->next->name);
		if (r == 0)
			s->next++;
	}
	if (s->is_asked) /* the child ends by itself when we let go of it here */
		(void)!take_child(s, &ignored);
	if (r == 1)
		s->g->start = s;
	else
		start_free(s);
	return r;
}

int guest_launch(struct guest *g, loop_child_fn on_exit,
                 void (*failed)(struct guest *g, const struct err *err), struct err *err)
{
	struct start *s = start_new(g);

	s->on_exit = on_exit;
	s->failed = failed;
	return run_steps(s, err);
}

int guest_go_on(struct guest *g, struct err *err)
{
	return run_steps(take_ptr(g->start), err);
}

void guest_drop_start(struct guest *g)
{
	if (g->start)
		start_free(take_ptr(g->start));
}
