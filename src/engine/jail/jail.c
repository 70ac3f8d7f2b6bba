// SPDX-License-Identifier: Apache-2.0
/*
 * The jail engine: the life of a guest as the broker sees it.
 *
 *	starting --> running --> ended
 *	    +-----------+----------+--> removing --> (freed)
 *
 * start() makes a guest's host objects in the order of the table below, lets the child go, and
 * waits on the loop for one of three things on the status pipe: the agent's "1" (it serves), a
 * struct err of a failed step, or the end. Nothing waits in the broker itself.
 *
 * There is one way out, remove_guest(), for a killed, failed, dead or merely found guest: kill the
 * first process, and when it is reaped remove cgroups, layer and directory, trying again as long
 * as the kernel says busy. All of it works from the id alone, so that what an earlier broker left
 * needs no other code.
 */
#include "engine/jail/child.h"

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "engine/jail/ns.h"
#include "engine/jail/record.h"
#include "engine/jail/share.h"
#include "engine/jail/storage.h"
#include "engine/jail/sys.h"
#include "engine/jail/template_host.h"
#include "engine/jail/text.h"
#include "engine/jail/tree.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define START_TIMEOUT_US (20 * 1000000U) /* a start takes milliseconds; a loaded host more */
#define RETRY_FIRST_US   500U
#define RETRY_MOST_US    100000U
#define LISTEN_BACKLOG   16
#define AGENT_SOCKET     "agent.sock"
#define MOUNTINFO_MAX    (4 << 20)
#define WALLS_ALWAYS                                                                               \
	(BIT(WALL_USER_NS) | BIT(WALL_PID_NS) | BIT(WALL_MOUNT_NS) | BIT(WALL_NET_NS) |            \
	 BIT(WALL_IPC_NS) | BIT(WALL_UTS_NS) | BIT(WALL_CGROUP_NS) | BIT(WALL_UID_RANGE) |         \
	 BIT(WALL_PIVOT_ROOT) | BIT(WALL_CAPABILITIES) | BIT(WALL_NO_NEW_PRIVS) |                  \
	 BIT(WALL_SECCOMP) | BIT(WALL_MASKED_PROC) | BIT(WALL_NET_LINKLESS))

enum guest_state { GUEST_STARTING, GUEST_RUNNING, GUEST_ENDED, GUEST_REMOVING };

struct guest {
	struct list link; /* in host.guests */
	enum guest_state state;
	struct guest_spec spec;
	guest_started_fn started;
	guest_ended_fn ended;
	void *arg;
	guest_gone_fn gone;
	void *gone_arg;

	pid_t pid;
	struct loop_child *child; /* the first process, until it is reaped */
	struct loop_child *remover;
	struct loop_io *status_io;
	struct loop_timer *timer; /* of the start, then of the removal's next try */
	uint64_t retry_us;
	int status_fd;
	int dir_fd;   /* RUN/sandboxes/ID */
	int share_fd; /* -1 in a guest that was adopted */
	struct err failure;
};

/* What all guests share. The engine table has no place for a handle, and the broker is one. */
static struct {
	struct loop *loop;
	char *data_dir;
	char *sandboxes_dir; /* RUN/sandboxes */
	int sandboxes_fd;
	int agent_fd;
	int net_fd;      /* the host's net namespace */
	int template_fd; /* the skeleton of `host` */
	int usr_fd;
	struct storage storage;
	struct cgroup_host cgroups;
	struct seccomp_program filter;
	struct list guests;
} host;

static void close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(take_fd(fd));
}

static struct guest *guest_new(const struct guest_spec *spec)
{
	struct guest *g = xnew0(struct guest);

	g->spec = *spec;
	g->status_fd = g->dir_fd = g->share_fd = -1;
	g->retry_us = RETRY_FIRST_US;
	list_append(&host.guests, &g->link);
	return g;
}

static void guest_free(struct loop *loop, void *arg)
{
	struct guest *g = arg;

	(void)loop;
	loop_timer_free(g->timer);
	close_fd(&g->status_fd);
	close_fd(&g->dir_fd);
	close_fd(&g->share_fd);
	free(g);
}

static void finish_removal(struct guest *g)
{
	int r = tree_remove(host.sandboxes_fd, g->spec.id);

	if (r < 0)
		log_debug("jail.leftover", "id=%s errno=%d", g->spec.id, -r);
	list_remove(&g->link);
	log_debug("jail.removed", "id=%s", g->spec.id);
	if (g->gone)
		g->gone(g->gone_arg);
	else if (g->failure.code != ERR_NONE && g->started)
		g->started(g, &g->failure, g->arg);
	loop_defer(host.loop, guest_free, g);
}

static void on_layer_removed(struct loop *loop, int wait_status, void *arg)
{
	struct guest *g = arg;

	(void)loop;
	g->remover = NULL;
	if (wait_status != 0)
		log_debug("jail.leftover", "id=%s layer=1", g->spec.id);
	finish_removal(g);
}

static void remove_layer(struct guest *g)
{
	int pidfd = -1;
	int r = storage_remove(&host.storage, g->spec.id, &pidfd);

	if (r == 1)
		r = loop_child_add(host.loop, pidfd, on_layer_removed, g, &g->remover);
	else
		r = r == 0 ? -ECHILD : r;
	if (r < 0) /* nothing to wait for */
		finish_removal(g);
}

static void try_removal(struct loop *loop, void *arg)
{
	struct guest *g = arg;

	(void)loop;
	if (cgroup_remove(&host.cgroups, g->spec.id) < 0) {
		/* Something of it is still dying, or was never below the first process. */
		cgroup_kill(&host.cgroups, g->spec.id);
		loop_timer_set_in(g->timer, g->retry_us);
		g->retry_us = MIN(g->retry_us * 2, (uint64_t)RETRY_MOST_US);
		return;
	}
	remove_layer(g);
}

static void remove_guest(struct guest *g)
{
	struct err ignored;

	g->state = GUEST_REMOVING;
	loop_io_removep(&g->status_io);
	loop_timer_free(g->timer);
	g->timer = loop_timer_new(host.loop, try_removal, g);
	if (g->child)
		(void)pidfd_send_signal(loop_child_pidfd(g->child), SIGKILL, NULL, 0);
	/* A frozen v1 group cannot die, and the first process waits for what is below it. */
	(void)!cgroup_freeze(&host.cgroups, g->spec.id, false, &ignored);
	if (!g->child)
		loop_timer_set_in(g->timer, 0);
}

static void fail_start(struct guest *g, const struct err *err)
{
	g->failure = *err;
	remove_guest(g);
}

static void on_child_exit(struct loop *loop, int wait_status, void *arg)
{
	struct guest *g = arg;
	struct err err;

	g->child = NULL;
	switch (g->state) {
	case GUEST_STARTING:
		err_set(&err, ERR_INTERNAL, 0, "the sandbox's agent ended before it served");
		fail_start(g, &err);
		break;
	case GUEST_RUNNING:
		g->state = GUEST_ENDED;
		g->ended(g, wait_status, g->arg);
		break;
	case GUEST_REMOVING:
		try_removal(loop, g);
		break;
	case GUEST_ENDED:
		assert(false);
		break;
	}
}

static void on_status(struct loop *loop, uint32_t events, void *arg)
{
	struct guest *g = arg;
	struct err err;
	ssize_t n = read(g->status_fd, &err, sizeof(err));

	(void)loop;
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	loop_io_removep(&g->status_io);
	close_fd(&g->status_fd);
	if (n == sizeof(err)) {
		err.message[sizeof(err.message) - 1] = err.hint[sizeof(err.hint) - 1] = '\0';
		err.field[sizeof(err.field) - 1] = '\0';
		fail_start(g, &err);
	} else if (n == 1) {
		loop_timer_set(g->timer, UINT64_MAX);
		g->state = GUEST_RUNNING;
		log_debug("jail.serves", "id=%s pid=%d", g->spec.id, (int)g->pid);
		g->started(g, NULL, g->arg);
	}
	/* At the end of the pipe the child's exit follows, and tells. */
}

static void on_start_timeout(struct loop *loop, void *arg)
{
	struct err err;

	(void)loop;
	err_set(&err, ERR_TIMEOUT, ETIMEDOUT, "the sandbox's agent did not serve in time");
	fail_start(arg, &err);
}

/* What start() holds on its way; the fds are only for the child. */
struct start {
	struct guest *g;
	struct jail jail;
	char *staging;
	int layer_fd, go_fd, agent_group_fd;
};

static int make_dir(struct start *s, struct err *err)
{
	struct guest *g = s->g;

	if (mkdirat(host.sandboxes_fd, g->spec.id, 0700) < 0)
		return err_set(err, errno == EEXIST ? ERR_CONFLICT : ERR_INTERNAL, errno,
		               "cannot make the sandbox's run directory");
	g->dir_fd = openat(host.sandboxes_fd, g->spec.id,
	                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (g->dir_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the run directory");
	s->staging = xasprintf("%s/%s", host.sandboxes_dir, g->spec.id);
	return 0;
}

static int make_layer(struct start *s, struct err *err)
{
	return storage_make(&host.storage, s->g->spec.id, s->g->spec.limits.disk_bytes,
	                    &s->layer_fd, err);
}

static int make_groups(struct start *s, struct err *err)
{
	int r = cgroup_make(&host.cgroups, s->g->spec.id, &s->g->spec.limits, err);

	if (r == 0)
		r = cgroup_open_user(&host.cgroups, s->g->spec.id, s->jail.user_fds, err);
	if (r < 0)
		return r;
	s->jail.n_user_fds = (size_t)r;
	s->agent_group_fd = cgroup_open_agent(&host.cgroups, s->g->spec.id);
	return 0;
}

static int make_share(struct start *s, struct err *err)
{
	share_pick_cpus(s->g->spec.slot, &s->g->spec.limits, &s->jail.cpus);
	return share_make(&s->g->spec.limits, &s->g->share_fd, err);
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
	return fd_set_nonblock(s->g->status_fd, true);
}

/* An address in our run directory, whatever the length of its path. */
static struct sockaddr_un agent_address(const struct guest *g)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/" AGENT_SOCKET,
	               g->dir_fd);
	return addr;
}

/* Made in the sandbox's net namespace: the agent must not hold a socket of the host's. */
static int make_listener(struct start *s, struct err *err)
{
	const struct sockaddr_un addr = agent_address(s->g);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	s->jail.listen_fd = fd;
	if (fd < 0 || bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    fchmodat(s->g->dir_fd, AGENT_SOCKET, 0600, 0) < 0 || listen(fd, LISTEN_BACKLOG) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the agent's socket");
	return 0;
}

static int clone_child(struct start *s, struct err *err)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC |
	                 CLONE_NEWUTS,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	int r;

	if (s->agent_group_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)s->agent_group_fd;
	}
	s->g->pid = sys_clone3(&args);
	if (s->g->pid < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot start the jail's process");
	if (s->g->pid == 0) {
		(void)close(s->go_fd); /* so that it ends when the broker does */
		jail_child_run(&s->jail);
	}
	r = loop_child_add(host.loop, pidfd, on_child_exit, s->g, &s->g->child);
	if (r < 0) {
		(void)kill(s->g->pid, SIGKILL);
		(void)close(pidfd);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the jail's process");
	}
	return 0;
}

/* The host's net namespace is left for just these. */
static int enter_net_and_clone(struct start *s, struct err *err)
{
	int r = ns_enter_new_net(err);

	if (r == 0)
		r = make_listener(s, err);
	if (r == 0)
		r = clone_child(s, err);
	ns_leave_net(host.net_fd);
	return r;
}

static int map_ids(struct start *s, struct err *err)
{
	return ns_write_id_maps(s->g->pid, s->g->spec.slot, err);
}

static int join_groups(struct start *s, struct err *err)
{
	return cgroup_join_agent(&host.cgroups, s->g->spec.id, s->g->pid, err);
}

static int write_record(struct start *s, struct err *err)
{
	return record_write(s->g->dir_fd, &s->g->spec, s->g->pid, err);
}

static int make_mounts(struct start *s, int userns_fd, struct err *err)
{
	const struct {
		int dir_fd;
		bool is_read_only;
	} sources[] = {
		[JAIL_MOUNT_TEMPLATE] = {host.template_fd, true},
		[JAIL_MOUNT_USR] = {host.usr_fd, true},
		[JAIL_MOUNT_LAYER] = {s->layer_fd, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		int r = ns_idmapped_mount(sources[i].dir_fd, userns_fd, sources[i].is_read_only,
		                          &s->jail.mounts[i], err);

		if (r < 0)
			return r;
	}
	s->jail.mounts[JAIL_MOUNT_SHARE] = dup(s->g->share_fd);
	return 0;
}

/* The mounts are the signal to go. */
static int send_mounts(struct start *s, struct err *err)
{
	char path[48];
	auto_fd int userns_fd = -1;
	ssize_t n;
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)s->g->pid);
	userns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (userns_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the user namespace");
	r = make_mounts(s, userns_fd, err);
	if (r < 0)
		return r;
	n = fd_send(s->go_fd, "g", 1, s->jail.mounts, JAIL_MOUNT_COUNT);
	return n < 0 ? err_set(err, ERR_INTERNAL, (int)-n, "cannot send the mounts") : 0;
}

static const struct {
	const char *name;
	int (*run)(struct start *s, struct err *err);
} start_steps[] = {
	{"directory", make_dir},
	{"layer", make_layer},
	{"cgroups", make_groups},
	{"share", make_share},
	{"pipes", make_pipes},
	{"clone", enter_net_and_clone}, /* the child waits for the last step */
	{"ids", map_ids},
	{"groups", join_groups},
	{"record", write_record}, /* from here on a later broker can find it */
	{"mounts", send_mounts},
};

static void start_done(struct start *s)
{
	close_fd(&s->layer_fd);
	close_fd(&s->go_fd);
	close_fd(&s->agent_group_fd);
	close_fd(&s->jail.go_fd);
	close_fd(&s->jail.status_fd);
	close_fd(&s->jail.listen_fd);
	for (size_t i = 0; i < s->jail.n_user_fds; i++)
		close_fd(&s->jail.user_fds[i]);
	for (size_t i = 0; i < JAIL_MOUNT_COUNT; i++)
		close_fd(&s->jail.mounts[i]);
	free(s->staging);
}

static int run_start(struct guest *g, struct err *err)
{
	struct start s = {.g = g,
	                  .layer_fd = -1,
	                  .go_fd = -1,
	                  .agent_group_fd = -1,
	                  .jail = {.spec = &g->spec,
	                           .filter = &host.filter,
	                           .agent_fd = host.agent_fd,
	                           .go_fd = -1,
	                           .status_fd = -1,
	                           .listen_fd = -1}};
	int r = 0;

	for (size_t i = 0; i < JAIL_MOUNT_COUNT; i++)
		s.jail.mounts[i] = -1;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(start_steps); i++) {
		s.jail.staging = s.staging;
		r = start_steps[i].run(&s, err);
		if (r < 0)
			err_prefix(err, "start step '%s'", start_steps[i].name);
	}
	if (r == 0)
		r = loop_io_add(host.loop, g->status_fd, EPOLLIN, on_status, g, &g->status_io);
	start_done(&s);
	return r;
}

static int jail_start(const struct guest_spec *spec, guest_started_fn started, guest_ended_fn ended,
                      void *arg, struct guest **ret, struct err *err)
{
	struct guest *g;
	int r;

	if (!id_is_valid(spec->id, "sb") || spec->slot >= NS_SLOTS_MAX ||
	    strnlen(spec->hostname, sizeof(spec->hostname)) == sizeof(spec->hostname))
		return err_set(err, ERR_BAD_REQUEST, EINVAL, "not a sandbox that can be started");
	if (spec->template_id != 0)
		return err_set(err, ERR_NOT_FOUND, ENOENT, "no template %u", spec->template_id);
	list_for_each (&host.guests, struct guest, other, link)
		if (strcmp(other->spec.id, spec->id) == 0)
			return err_set(err, ERR_CONFLICT, EEXIST, "'%s' exists", spec->id);
	g = guest_new(spec);
	r = run_start(g, err);
	if (r < 0) {
		remove_guest(g); /* goes on in the background; nobody waits for it */
		return r;
	}
	g->started = started;
	g->ended = ended;
	g->arg = arg;
	g->timer = loop_timer_new(host.loop, on_start_timeout, g);
	loop_timer_set_in(g->timer, START_TIMEOUT_US);
	*ret = g;
	return 0;
}

/* A guest that is only a name, to be removed. */
static void remove_found(const char *id)
{
	struct guest_spec spec = {0};

	(void)snprintf(spec.id, sizeof(spec.id), "%s", id);
	remove_guest(guest_new(&spec));
}

static int jail_adopt(const char *id, guest_ended_fn ended, void *arg, struct guest **ret,
                      struct guest_spec *ret_spec, struct err *err)
{
	auto_fd int dir_fd = -1, pidfd = -1;
	struct record record;
	struct guest *g;
	int r;

	if (!id_is_valid(id, "sb"))
		return err_set(err, ERR_BAD_REQUEST, EINVAL, "not a sandbox's id");
	dir_fd = openat(host.sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = dir_fd < 0 ? -errno : record_read(dir_fd, id, &record);
	if (r == 0)
		r = record_open_process(&record, &pidfd);
	if (r < 0) {
		remove_found(id);
		return err_set(err, ERR_GONE, ESRCH, "'%s' is dead", id);
	}
	g = guest_new(&record.spec);
	r = loop_child_add(host.loop, pidfd, on_child_exit, g, &g->child);
	if (r < 0) {
		list_remove(&g->link);
		guest_free(host.loop, g);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch '%s'", id);
	}
	(void)take_fd(&pidfd);
	g->state = GUEST_RUNNING;
	g->pid = record.pid;
	g->dir_fd = take_fd(&dir_fd);
	g->ended = ended;
	g->arg = arg;
	*ret = g;
	*ret_spec = record.spec;
	return 0;
}

static int jail_connect(struct guest *g, int *ret_fd, struct err *err)
{
	const struct sockaddr_un addr = agent_address(g);
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	if (fd < 0 || connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
		return err_set(err, ERR_UNAVAILABLE, errno, "cannot connect to the agent");
	*ret_fd = take_fd(&fd);
	return 0;
}

static int jail_set_limits(struct guest *g, const struct guest_limits *limits, struct err *err)
{
	cpu_set_t cpus;
	int r;

	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	r = cgroup_set_limits(&host.cgroups, g->spec.id, limits, err);
	if (r == 0)
		r = storage_limit(&host.storage, g->spec.id, limits->disk_bytes, err);
	if (r == 0 && g->share_fd >= 0)
		r = share_update(g->share_fd, limits, err);
	if (r < 0)
		return r;
	g->spec.limits = *limits;
	/* New execs inherit it from the agent. */
	share_pick_cpus(g->spec.slot, limits, &cpus);
	(void)sched_setaffinity(g->pid, sizeof(cpus), &cpus);
	return record_write(g->dir_fd, &g->spec, g->pid, err);
}

static int jail_usage(struct guest *g, struct guest_usage *ret, struct err *err)
{
	(void)err;
	*ret = (struct guest_usage){0};
	cgroup_usage(&host.cgroups, g->spec.id, ret);
	ret->disk_bytes = storage_usage(&host.storage, g->spec.id);
	return 0;
}

static int jail_freeze(struct guest *g, bool on, struct err *err)
{
	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	return cgroup_freeze(&host.cgroups, g->spec.id, on, err);
}

static void jail_kill(struct guest *g, guest_gone_fn gone, void *arg)
{
	g->gone = gone;
	g->gone_arg = arg;
	if (g->state != GUEST_REMOVING)
		remove_guest(g);
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
	list_for_each (&host.guests, struct guest, g, link)
		if (strcmp(g->spec.id, id) == 0)
			return; /* found before, or being removed */
	log_debug("jail.swept", "id=%s", id);
	remove_found(id);
}

static void jail_sweep(bool (*is_known)(const char *id, void *arg), void *arg)
{
	struct sweep s = {is_known, arg};

	tree_each_id(host.sandboxes_fd, sweep_id, &s);
	tree_each_id(host.storage.fd, sweep_id, &s);
	cgroup_each(&host.cgroups, sweep_id, &s);
}

static struct isolation jail_isolation(void)
{
	static const struct {
		enum cgroup_part part;
		enum wall wall;
	} limits[] = {{CGROUP_MEMORY, WALL_MEMORY_LIMIT},
	              {CGROUP_CPU, WALL_CPU_LIMIT},
	              {CGROUP_PIDS, WALL_PIDS_LIMIT}};
	const unsigned disk = BIT(WALL_DISK_LIMIT) | BIT(WALL_INODE_LIMIT);
	struct isolation ret = {.engine = 1, .grade = GRADE_PROCESS, .walls = WALLS_ALWAYS};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		*(host.cgroups.parts & BIT(limits[i].part) ? &ret.walls : &ret.gaps) |=
			BIT(limits[i].wall);
	*(host.storage.is_btrfs ? &ret.walls : &ret.gaps) |= disk;
	return ret;
}

static int open_cgroups(const char *run_dir, struct err *err)
{
	struct buf mountinfo = BUF_INIT(MOUNTINFO_MAX);
	uint32_t hash = 2166136261U;
	char parent[32];
	int r = text_read("/proc/self/mountinfo", &mountinfo);

	/* Daemons of different run directories live side by side. */
	for (const char *p = run_dir; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619U;
	(void)snprintf(parent, sizeof(parent), "cloche-%08x", hash);
	if (r < 0)
		r = err_set(err, ERR_INTERNAL, -r, "cannot read mountinfo");
	else
		r = cgroup_host_open(&host.cgroups, "", buf_str(&mountinfo), parent, err);
	buf_done(&mountinfo);
	return r;
}

static int open_dirs(const struct engine_host *given, struct err *err)
{
	host.data_dir = realpath(given->data_dir, NULL);
	if (!host.data_dir)
		return err_set(err, ERR_INTERNAL, errno, "no directory '%s'", given->data_dir);
	host.sandboxes_dir = xasprintf("%s/sandboxes", given->run_dir);
	if (mkdir(host.sandboxes_dir, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", host.sandboxes_dir);
	host.sandboxes_fd =
		open(host.sandboxes_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	host.net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	host.usr_fd = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (host.sandboxes_fd < 0 || host.net_fd < 0 || host.usr_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open what all sandboxes share");
	return 0;
}

static void count_id(const char *id, void *arg)
{
	(void)id;
	++*(unsigned *)arg;
}

static void close_host(bool is_over)
{
	storage_close(&host.storage, /* unmount= */ is_over);
	if (is_over)
		cgroup_host_remove(&host.cgroups);
	else
		cgroup_host_close(&host.cgroups);
	close_fd(&host.template_fd);
	close_fd(&host.usr_fd);
	close_fd(&host.net_fd);
	close_fd(&host.sandboxes_fd);
	if (is_over && host.sandboxes_dir)
		(void)rmdir(host.sandboxes_dir);
	free(host.sandboxes_dir);
	free(host.data_dir);
	host.sandboxes_dir = host.data_dir = NULL;
}

static int jail_probe(const struct engine_host *given, struct err *err)
{
	unsigned guests = 0;
	int r;

	host.loop = given->loop;
	host.agent_fd = given->agent_fd;
	host.sandboxes_fd = host.net_fd = host.usr_fd = host.template_fd = host.storage.fd = -1;
	list_init(&host.guests);
	if (geteuid() != 0)
		return err_set(err, ERR_UNSUPPORTED, EPERM, "the jail engine needs root");
	(void)umask(022); /* modes in skeletons, layers and shares are meant as written */
	/* The agent must not be readable from inside: then the kernel lets no one there look into
	 * its process either, not even root. */
	if (fchmod(given->agent_fd, 0111) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot set the agent's mode");
	r = open_dirs(given, err);
	if (r == 0)
		r = seccomp_build(&host.filter, err);
	if (r == 0)
		r = open_cgroups(given->run_dir, err);
	if (r == 0)
		r = storage_open(&host.storage, host.data_dir, given->is_plain_storage, err);
	if (r == 0)
		r = template_host_open(host.data_dir, given->agent_fd, &host.template_fd, err);
	if (r < 0) {
		close_host(/* is_over= */ false);
		return r;
	}
	tree_each_id(host.sandboxes_fd, count_id, &guests);
	if (guests == 0)
		template_host_prune(host.data_dir, host.template_fd);
	return 0;
}

static void jail_leave(void)
{
	bool is_over = list_empty(&host.guests);

	/* The handles go, the guests stay: the next broker adopts them. */
	list_for_each (&host.guests, struct guest, g, link) {
		loop_io_removep(&g->status_io);
		loop_child_remove(g->child);
		loop_child_remove(g->remover);
		list_remove(&g->link);
		guest_free(host.loop, g);
	}
	close_host(is_over);
}

const struct engine jail_engine = {
	.name = "jail",
	.probe = jail_probe,
	.leave = jail_leave,
	.isolation = jail_isolation,
	.start = jail_start,
	.adopt = jail_adopt,
	.connect = jail_connect,
	.set_limits = jail_set_limits,
	.usage = jail_usage,
	.freeze = jail_freeze,
	.kill = jail_kill,
	.sweep = jail_sweep,
};
