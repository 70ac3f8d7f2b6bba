// SPDX-License-Identifier: Apache-2.0
/*
 * The broker's side of a guest's start: the steps of its kind, in order. Each makes one host object
 * that removal finds again by the sandbox's id. The spawner clones the child meanwhile; the child
 * waits for the last step. Fds that are only for the child are closed here at the end, or after a
 * failure. If the layer is a copy, it is made meanwhile too (disk_snapshot.h), and the first step
 * that needs it waits for it.
 */
#include "engine/guest/start_steps.h"

#include "base/fd.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/guest_kind.h"
#include "engine/guest/guest_record.h"
#include "engine/guest/spawner.h"
#include "engine/layer/kept_layer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LISTEN_BACKLOG 16

/* Whether only the environment is made here: the processes come from saved memory. */
static bool is_founder(const struct start *s)
{
	return s->kind == SPAWNER_FOUNDER;
}

int start_make_dir(struct start *s, struct err *err)
{
	struct guest *g = s->g;

	if (mkdirat(s->g->host->sandboxes_fd, g->spec.id, 0700) < 0)
		return err_set(err, errno == EEXIST ? ERR_CONFLICT : ERR_INTERNAL, errno,
		               "cannot make the sandbox's run directory");
	g->dir_fd = openat(s->g->host->sandboxes_fd, g->spec.id,
	                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (g->dir_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the run directory");
	return 0;
}

int start_make_layer(struct start *s, struct err *err)
{
	const struct guest_spec *spec = &s->g->spec;
	int r;

	if (spec->snapshot[0])
		return 0; /* start_await_copy() */
	if (spec->is_resumed)
		return kept_layer_reopen(&s->g->host->storage, spec->id,
		                         disk_snapshot_limit(s->g->host, spec), &s->layer_fd, err);
	r = storage_make(&s->g->host->storage, spec->id, spec->limits.disk_bytes, &s->layer_fd,
	                 err);
	return r == 0 && spec->keeper ? kept_layer_mark(s->layer_fd, spec->keeper, err) : r;
}

int start_await_copy(struct start *s, struct err *err)
{
	if (!s->g->spec.snapshot[0])
		return 0;
	return s->g->worker ? 1 : disk_snapshot_open_clone(s->g, &s->layer_fd, err);
}

int start_make_groups(struct start *s, struct err *err)
{
	const struct guest_limits *own = &s->g->spec.limits;
	const struct guest_limits limits =
		s->g->kind->group_limits ? s->g->kind->group_limits(own) : *own;
	int r = cgroup_make(&s->g->host->cgroups, s->g->spec.id, &limits, err);

	if (r == 0)
		r = cgroup_open_user(&s->g->host->cgroups, s->g->spec.id, s->jail.user_fds, err);
	if (r < 0)
		return r;
	s->jail.n_user_fds = (size_t)r;
	return 0;
}

int start_make_pipes(struct start *s, struct err *err)
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

/* An address in our run directory, for a path of any length. */
struct sockaddr_un guest_agent_address(const struct guest *g)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/" GUEST_AGENT_SOCKET,
	               g->dir_fd);
	return addr;
}

int start_ask_spawner(struct start *s, struct err *err)
{
	int r;

	if (!is_founder(s))
		s->agent_group_fd = cgroup_open_agent(&s->g->host->cgroups, s->g->spec.id);
	r = spawner_ask(&s->g->host->spawner, s->kind, s->g->spec.slot, s->jail.go_fd,
	                s->jail.status_fd, s->agent_group_fd, err);
	s->is_asked = r == 0;
	return r;
}

/* The spawner died before it answered. A child that it may have made ends with the pipes that it
 * was given.
 */
static int ask_again(struct start *s, struct hatched *ret, struct err *err)
{
	int r;

	close_fd(&s->go_fd);
	close_fd(&s->jail.go_fd);
	close_fd(&s->jail.status_fd);
	close_fd(&s->g->status_fd);
	close_fd(&s->agent_group_fd);
	r = start_make_pipes(s, err);
	if (r == 0)
		r = start_ask_spawner(s, err);
	return r < 0 ? r : spawner_take(&s->g->host->spawner, ret, err);
}

int start_take_child(struct start *s, struct err *err)
{
	int r = spawner_take(&s->g->host->spawner, &s->child, err);

	if (r == -ECONNRESET || r == -EPIPE)
		r = ask_again(s, &s->child, err);
	s->is_asked = false;
	if (r < 0)
		return r;
	s->jail.listen_fd = s->child.socket_fd;
	close_fd(&s->jail.go_fd);
	if (is_founder(s))
		return 0;
	/* Only the child has these now, and they end with it. */
	close_fd(&s->jail.status_fd);
	s->g->pid = s->child.pid;
	r = loop_child_take(s->g->host->loop, take_fd(&s->child.pidfd), s->on_exit, s->g,
	                    &s->g->child);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch the jail's process") : 0;
}

/* The socket belongs to the sandbox's net namespace: the agent must not hold one of the host's. */
int start_listen(struct start *s, struct err *err)
{
	const struct sockaddr_un addr = guest_agent_address(s->g);
	int fd = s->jail.listen_fd;

	if (bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    fchmodat(s->g->dir_fd, GUEST_AGENT_SOCKET, 0600, 0) < 0 ||
	    listen(fd, LISTEN_BACKLOG) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the agent's socket");
	return 0;
}

int start_join_groups(struct start *s, struct err *err)
{
	return is_founder(s)
	               ? 0
	               : cgroup_join_agent(&s->g->host->cgroups, s->g->spec.id, s->g->pid, err);
}

int start_write_record(struct start *s, struct err *err)
{
	return is_founder(s) ? 0 : guest_record_write(s->g->dir_fd, &s->g->spec, s->g->pid, err);
}

static void start_free(struct start *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->own_fds); i++)
		close_fd(&s->own_fds[i]);
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
	for (size_t i = 0; i < s->jail.orders.n_join_fds; i++)
		close_fd(&s->jail.join_fds[i]);
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
		.next = g->kind->steps,
		.kind = g->kind->child(&g->spec),
		.child = {.pidfd = -1, .socket_fd = -1},
		.layer_fd = -1,
		.go_fd = -1,
		.agent_group_fd = -1,
		.jail = {.go_fd = -1, .status_fd = -1, .listen_fd = -1, .shown_fd = -1}};
	for (size_t i = 0; i < JAIL_MOUNT_COUNT; i++)
		s->jail.mounts[i] = -1;
	for (size_t i = 0; i < ARRAY_SIZE(s->own_fds); i++)
		s->own_fds[i] = -1;
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
		(void)!start_take_child(s, &ignored);
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
