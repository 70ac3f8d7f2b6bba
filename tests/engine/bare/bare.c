// SPDX-License-Identifier: Apache-2.0
/*
 * The life of a bare guest:
 *
 *	start() --> clone, record, go --> the agent serves: started() --> kill() --> gone()
 *	                               \-> it ends before: started() with an error
 *
 * Its directory RUN/sandboxes/ID has the agent's socket and the record. All else of it lies in its
 * namespaces and goes with them.
 */
#include "bare.h"

#include "base/fd.h"
#include "base/list.h"
#include "base/units.h"
#include "engine/guest/guest_record.h"
#include "engine/linux/syscalls.h"
#include "engine/template/host_root.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define NUMBER   3
#define START_US (20 * SECOND_US)

struct guest_host {
	struct engine_host given;
	int dir_fd; /* RUN/sandboxes */
	int template_fd;
	struct list guests;
};

struct guest {
	struct list link;
	struct guest_host *host;
	struct guest_spec spec;
	int dir_fd, ready_fd;
	struct loop_child *child; /* NULL: it has ended */
	struct loop_io *ready_io;
	struct loop_timer *timer;
	struct err failure;       /* of its start */
	guest_started_fn started; /* NULL: it was called */
	guest_ended_fn ended;
	void *arg;
	guest_gone_fn gone; /* NULL: kill() was not called */
	void *gone_arg;
};

static void bare_leave(struct guest_host *host);

static int bare_probe(const struct engine_host *given, struct guest_host **ret, struct err *err)
{
	struct guest_host *host = xnew0(struct guest_host);
	auto_free char *path = xasprintf("%s/sandboxes", given->run_dir);
	int r;

	host->given = *given;
	host->template_fd = -1;
	list_init(&host->guests);
	host->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* the first engine's */
	r = host->dir_fd < 0 ? err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", path)
	                     : host_root_open(given->data_dir, given->agent_fd, given->kernels_dir,
	                                      &host->template_fd, err);
	if (r == 0)
		*ret = host;
	else
		bare_leave(host);
	return r;
}

static void free_guest(struct guest *g)
{
	list_remove(&g->link);
	loop_io_removep(&g->ready_io);
	loop_child_remove(g->child);
	loop_timer_free(g->timer);
	if (g->ready_fd >= 0)
		(void)close(g->ready_fd);
	if (g->dir_fd >= 0)
		(void)close(g->dir_fd);
	free(g);
}

static void bare_leave(struct guest_host *host)
{
	list_for_each (&host->guests, struct guest, g, link)
		free_guest(g); /* it lives on, for the next broker */
	if (host->template_fd >= 0)
		(void)close(host->template_fd);
	if (host->dir_fd >= 0)
		(void)close(host->dir_fd);
	free(host);
}

static struct isolation bare_isolation(struct guest_host *host, const struct guest *g)
{
	(void)host;
	(void)g;
	return (struct isolation){.engine = NUMBER, .gaps = BIT(WALL_MEMORY_SNAPSHOTS)};
}

static void remove_dir(const struct guest_host *host, const char *id)
{
	auto_fd int fd = openat(host->dir_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)unlinkat(fd, "agent.sock", 0);
	(void)unlinkat(fd, "record", 0);
	(void)unlinkat(host->dir_fd, id, AT_REMOVEDIR);
}

/* Nothing runs of it any more, and whoever waited for that is told. */
static void finish(struct loop *loop, void *arg)
{
	const struct guest_usage usage = {0};
	struct guest *g = arg;
	const struct engine_host *given = &g->host->given;
	guest_gone_fn gone = g->gone;
	void *gone_arg = g->gone_arg;

	(void)loop;
	given->final(g->spec.id, &usage, given->final_arg);
	remove_dir(g->host, g->spec.id);
	free_guest(g);
	if (gone)
		gone(gone_arg);
}

static void on_exit_of_first(struct loop *loop, int wait_status, void *arg)
{
	struct guest *g = arg;
	guest_started_fn started = take_ptr(g->started);
	void *started_arg = g->arg;
	struct err err = g->failure;

	g->child = NULL;
	if (g->gone) {
		finish(loop, g);
	} else if (!started) {
		g->ended(g, wait_status, g->arg);
	} else {
		finish(loop, g);
		started(NULL, &err, started_arg);
	}
}

static void on_ready(struct loop *loop, uint32_t events, void *arg)
{
	struct guest *g = arg;
	ssize_t n = read(g->ready_fd, &g->failure, sizeof(g->failure));

	(void)loop;
	(void)events;
	loop_io_removep(&g->ready_io);
	loop_timer_set(g->timer, UINT64_MAX);
	/* One that failed is told of by its exit. */
	if (n == 1)
		take_ptr(g->started)(g, NULL, g->arg);
	else if (n != sizeof(g->failure))
		(void)err_set(&g->failure, ERR_GUEST, 0, "its agent did not start");
}

static void on_late(struct loop *loop, void *arg)
{
	const struct guest *g = arg;

	(void)loop;
	(void)syscall(SYS_pidfd_send_signal, loop_child_pidfd(g->child), SIGKILL, NULL, 0);
}

static struct guest *new_guest(struct guest_host *host, const struct guest_spec *spec)
{
	struct guest *g = xnew0(struct guest);

	g->host = host;
	g->spec = *spec;
	g->dir_fd = g->ready_fd = -1;
	g->timer = loop_timer_new(host->given.loop, on_late, g);
	list_append(&host->guests, &g->link);
	return g;
}

static struct sockaddr_un address_of(const struct guest *g)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/agent.sock",
	               g->dir_fd);
	return address;
}

static int make_dir(struct guest *g, int *ret_listen_fd)
{
	struct sockaddr_un address;

	if (mkdirat(g->host->dir_fd, g->spec.id, 0700) < 0)
		return -errno;
	g->dir_fd = openat(g->host->dir_fd, g->spec.id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	address = address_of(g);
	*ret_listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (g->dir_fd < 0 || *ret_listen_fd < 0 ||
	    bind(*ret_listen_fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(*ret_listen_fd, 8) < 0)
		return -errno;
	return 0;
}

/* The child waits for a byte until its record is written: before that nobody could find it. */
static int launch(struct guest *g, int listen_fd, struct err *err)
{
	auto_fd int go_fd = -1, ready_fd = -1, child_go_fd = -1;
	int go[2], ready[2], pidfd = -1;
	struct clone_args args = {.flags = CLONE_PIDFD | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET |
	                                   CLONE_NEWUTS | CLONE_NEWIPC,
	                          .pidfd = (uintptr_t)&pidfd,
	                          .exit_signal = SIGCHLD};
	pid_t pid;
	int r;

	if (pipe2(go, O_CLOEXEC) < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a pipe");
	child_go_fd = go[0];
	go_fd = go[1];
	if (pipe2(ready, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a pipe");
	g->ready_fd = ready[0];
	ready_fd = ready[1];
	pid = sys_clone3(&args);
	if (pid < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot clone");
	if (pid == 0) {
		const struct bare_child c = {&g->spec,
		                             child_go_fd,
		                             listen_fd,
		                             ready_fd,
		                             g->host->given.agent_fd,
		                             g->host->template_fd};

		(void)close(go_fd);
		bare_child_run(&c);
	}
	r = loop_child_take(g->host->given.loop, pidfd, on_exit_of_first, g, &g->child);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot watch it");
	r = guest_record_write(g->dir_fd, &g->spec, pid, err);
	if (r == 0 && fd_write_all(go_fd, "1", 1) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot let it go");
	return r;
}

/* What there is of this engine: the template `host`, and nothing that is kept. */
static int check(const struct guest_spec *spec, struct err *err)
{
	if (digest_is_zero(&spec->image) && !spec->keeper && !spec->snapshot[0])
		return 0;
	return err_set(err, ERR_UNSUPPORTED, 0,
	               "engine bare has the template host alone, and keeps "
	               "nothing");
}

static int bare_start(struct guest_host *host, const struct guest_spec *spec,
                      guest_started_fn started, guest_ended_fn ended, void *arg, struct guest **ret,
                      struct err *err)
{
	auto_fd int listen_fd = -1;
	struct guest *g;
	int r = check(spec, err);

	if (r < 0)
		return r;
	g = new_guest(host, spec);
	r = make_dir(g, &listen_fd);
	if (r < 0)
		(void)err_set(err, ERR_INTERNAL, -r, "cannot make the directory of %s", spec->id);
	else
		r = launch(g, listen_fd, err);
	if (r == 0) {
		r = loop_io_add(host->given.loop, g->ready_fd, EPOLLIN, on_ready, g, &g->ready_io);
		if (r < 0)
			(void)err_set(err, ERR_INTERNAL, -r, "cannot watch its pipe");
	}
	if (r < 0) {
		if (g->child) /* its namespaces go with it */
			on_late(host->given.loop, g);
		remove_dir(host, spec->id);
		free_guest(g);
		return r;
	}
	loop_timer_set_in(g->timer, START_US);
	g->started = started;
	g->ended = ended;
	g->arg = arg;
	*ret = g;
	return 0;
}

static int bare_adopt(struct guest_host *host, const char *id, guest_ended_fn ended, void *arg,
                      struct guest **ret, struct guest_spec *ret_spec, struct err *err)
{
	auto_fd int dir_fd = openat(host->dir_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct guest_record record;
	struct guest *g;
	int pidfd;

	if (dir_fd < 0 || guest_record_read(dir_fd, id, &record) < 0 ||
	    record.spec.engine != NUMBER)
		return -ENOENT;
	if (guest_record_open_process(&record, &pidfd) < 0) {
		remove_dir(host, id);
		return err_set(err, ERR_GONE, ESRCH, "'%s' is dead", id);
	}
	g = new_guest(host, &record.spec);
	if (loop_child_add(host->given.loop, pidfd, on_exit_of_first, g, &g->child) < 0) {
		(void)close(pidfd);
		free_guest(g);
		return err_set(err, ERR_INTERNAL, EIO, "cannot watch '%s'", id);
	}
	g->dir_fd = take_fd(&dir_fd);
	g->ended = ended;
	g->arg = arg;
	*ret = g;
	*ret_spec = record.spec;
	return 0;
}

static int bare_connect(struct guest *g, int *ret_fd, struct err *err)
{
	const struct sockaddr_un address = address_of(g);
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, ERR_UNAVAILABLE, errno, "cannot connect to the agent");
	*ret_fd = take_fd(&fd);
	return 0;
}

static int bare_set_limits(struct guest *g, const struct guest_limits *limits, struct err *err)
{
	(void)g;
	(void)limits;
	return err_set(err, ERR_UNSUPPORTED, 0, "engine bare has no limits");
}

static int bare_usage(struct guest *g, struct guest_usage *ret, struct err *err)
{
	(void)g;
	(void)err;
	*ret = (struct guest_usage){0};
	return 0;
}

static void bare_shortage(struct guest *g, struct guest_shortage *ret)
{
	(void)g;
	*ret = (struct guest_shortage){0};
}

static int bare_freeze(struct guest *g, bool on, struct err *err)
{
	(void)g;
	return on ? err_set(err, ERR_UNSUPPORTED, 0, "engine bare cannot pause") : 0;
}

static void bare_kill(struct guest *g, guest_gone_fn gone, void *arg)
{
	g->gone = gone;
	g->gone_arg = arg;
	if (g->child)
		on_late(g->host->given.loop, g);
	else
		loop_defer(g->host->given.loop, finish, g);
}

const struct engine bare_engine = {
	.name = "bare",
	.number = NUMBER,
	.traits = {.spare_us = 50 * MILLISECOND_US, .spare_bytes = 24 * MIB},
	.probe = bare_probe,
	.leave = bare_leave,
	.isolation = bare_isolation,
	.start = bare_start,
	.adopt = bare_adopt,
	.connect = bare_connect,
	.set_limits = bare_set_limits,
	.usage = bare_usage,
	.shortage = bare_shortage,
	.freeze = bare_freeze,
	.kill = bare_kill,
};
