// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/zygote/zygote.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/guest/guest.h"
#include "engine/guest/spawner.h"
#include "engine/jail/zygote/zygote_child.h"
#include "engine/layer/own_tmpfs.h"
#include "engine/linux/namespaces.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define START_US         (60 * SECOND_US) /* modules from a cold disk */
#define FORK_US          (10 * SECOND_US)
#define DELAY_FIRST_US   (SECOND_US / 10)
#define DELAY_MOST_US    (60 * SECOND_US)
#define WAITS_MAX        256
#define FAILURES_MAX     5
#define REMOVAL_EVERY_US 2000
#define REMOVAL_SHORT_US 20000 /* the broker has others to serve meanwhile */

/* As in kernels/python/cloche_kernel/zygote.py. */
struct zygote_request {
	uint64_t number;
	char tag[ID_SIZE];
	uint32_t open_files;
	uint32_t instructions; /* so many of the filter follow */
	struct sock_filter code[8];
} __attribute__((packed));

struct zygote_reply {
	uint64_t number; /* 0: it is ready */
	int32_t errnum;
} __attribute__((packed));

/* In the order in which they are sent. */
static const char *const namespaces[] = {"pid", "net", "user", "ipc", "uts", "cgroup", "mnt"};
#define FDS_MAX (ARRAY_SIZE(namespaces) + CGROUP_TREES_MAX)

struct wait {
	struct list link;
	struct zygote *zygote;
	uint64_t number;
	guest_forked_fn fn;
	void *arg;
	struct loop_timer *timer;
};

/* The pages that a fork wrote before it joined its sandbox's group, about 2 MiB, stay counted
 * here. */
static const struct guest_limits limits = {
	.memory_bytes = UINT64_C(16) << 30,
	.cpu_milli = 4000,
	.pids = 512, /* each fork is one of it until it has joined its sandbox's group */
};

void zygote_init(struct zygote *z, struct guest_host *host, const struct digest *image,
                 const char *group, const char *warm)
{
	*z = (struct zygote){.host = host,
	                     .image = *image,
	                     .warm = warm,
	                     .fd = -1,
	                     .status_fd = -1,
	                     .delay_us = DELAY_FIRST_US};
	(void)snprintf(z->group, sizeof(z->group), "%s", group);
	list_init(&z->waits);
}

static void wait_end(struct wait *w, const struct err *err)
{
	guest_forked_fn fn = w->fn;
	void *arg = w->arg;

	list_remove(&w->link);
	w->zygote->n_waits--;
	loop_timer_free(w->timer);
	free(w);
	fn(err, arg);
}

static void fail_waits(struct zygote *z)
{
	struct wait *w;
	struct err err;

	(void)err_set(&err, ERR_UNAVAILABLE, 0, "the zygote ended");
	while ((w = list_first(&z->waits, struct wait, link)))
		wait_end(w, &err);
}

static void hang_up(struct zygote *z)
{
	loop_io_removep(&z->io);
	close_fd(&z->fd);
	close_fd(&z->status_fd);
	z->is_ready = false;
}

void zygote_suspect(struct zygote *z, const char *why)
{
	if (!z->child)
		return;
	log_warn("zygote.killed", "why='%s'", why);
	(void)pidfd_send_signal(loop_child_pidfd(z->child), SIGKILL, NULL, 0);
}

/* A step that failed before the exec has left its reason. */
static void tell_end(struct zygote *z, int wait_status)
{
	struct err err;

	if (z->status_fd >= 0 && read(z->status_fd, &err, sizeof(err)) == sizeof(err)) {
		err.message[sizeof(err.message) - 1] = '\0';
		z->is_given_up = err.code == ERR_NOT_FOUND;
		log_warn("zygote.failed", "error='%s'", err.message);
	} else {
		log_info("zygote.ended", "wait_status=0x%x", wait_status);
	}
}

static void on_timer(struct loop *loop, void *arg)
{
	struct zygote *z = arg;

	(void)loop;
	if (z->child)
		zygote_suspect(z, "it did not get ready");
	else
		zygote_start(z);
}

/* The zygote of `host` is always tried again: its Python is this machine's. */
static void try_again(struct zygote *z)
{
	z->is_given_up |= ++z->n_failures >= FAILURES_MAX && !digest_is_zero(&z->image);
	if (z->is_given_up || !z->timer)
		return;
	loop_timer_set_in(z->timer, z->delay_us);
	z->delay_us = MIN(z->delay_us * 2, DELAY_MOST_US);
}

static void on_exit_of_zygote(struct loop *loop, int wait_status, void *arg)
{
	struct zygote *z = arg;

	(void)loop;
	z->child = NULL;
	z->n_deaths++;
	tell_end(z, wait_status);
	hang_up(z);
	fail_waits(z);
	try_again(z);
}

static struct wait *wait_find(struct zygote *z, uint64_t number)
{
	list_for_each (&z->waits, struct wait, w, link)
		if (w->number == number)
			return w;
	return NULL;
}

static void on_reply(struct zygote *z, const struct zygote_reply *reply)
{
	struct wait *w = wait_find(z, reply->number);
	struct err err;

	if (reply->number == 0 && !z->is_ready) {
		loop_timer_set(z->timer, UINT64_MAX);
		z->is_ready = true;
		z->n_failures = 0;
		log_info("zygote.ready", "warm='%s'", z->warm);
	} else if (!w) {
		zygote_suspect(z, "it answers what nobody asked");
	} else if (reply->errnum != 0) {
		(void)err_set(&err, ERR_UNAVAILABLE, 0, "the zygote's fork failed: errno %d",
		              reply->errnum);
		wait_end(w, &err);
	} else {
		z->delay_us = DELAY_FIRST_US;
		z->n_deaths = 0;
		wait_end(w, NULL);
	}
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct zygote *z = arg;
	struct zygote_reply reply;
	int fds[FD_PASS_MAX];
	size_t n_fds = 0;
	ssize_t n = fd_recv(z->fd, &reply, sizeof(reply), fds, &n_fds);

	(void)loop;
	(void)events;
	for (size_t i = 0; i < n_fds; i++)
		(void)close(fds[i]);
	if (n == -EAGAIN)
		return;
	if (n == sizeof(reply) && n_fds == 0) {
		on_reply(z, &reply);
		return;
	}
	loop_io_removep(&z->io); /* its end is waited for */
	zygote_suspect(z, n == 0 ? "it hung up" : "it talks nonsense");
}

static int send_orders(struct zygote *z, int go_fd, int broker_fd, struct err *err)
{
	struct zygote_orders orders = {.is_host = digest_is_zero(&z->image)};
	int dirs[] = {z->host->template_fd, z->host->usr_fd};
	int fds[ZYGOTE_MOUNT_COUNT + 1] = {-1, -1, -1, broker_fd};
	ssize_t n = 0;
	int r = orders.is_host
	                ? 0
	                : images_mount(&z->host->images, &z->image, &dirs[ZYGOTE_MOUNT_BASE], err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
		r = namespaces_detached_mount(dirs[i], /* is_read_only= */ true, &fds[i], err);
	if (r == 0)
		r = own_tmpfs_make_sealed(&fds[ZYGOTE_MOUNT_OWN_TMPFS], err);
	(void)snprintf(orders.warm, sizeof(orders.warm), "%s", z->warm);
	if (r == 0)
		n = fd_send(go_fd, &orders, sizeof(orders), fds, ARRAY_SIZE(fds));
	if (n < 0)
		r = err_set(err, ERR_INTERNAL, (int)-n, "cannot send the orders");
	for (size_t i = 0; i < ZYGOTE_MOUNT_COUNT; i++)
		close_fd(&fds[i]);
	return r;
}

/* Ends: go and broker are pairs of ours [0] and its own [1], status is a pipe. */
static int hatch(struct zygote *z, int go[2], int status[2], int broker[2], struct err *err)
{
	struct hatched h;
	int r = spawner_ask(&z->host->spawner, SPAWNER_ZYGOTE, 0, go[1], status[1], -1, err);

	if (r == 0)
		r = spawner_take(&z->host->spawner, &h, err);
	if (r < 0)
		return r;
	r = loop_child_take(z->host->loop, h.pidfd, on_exit_of_zygote, z, &z->child);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the zygote");
	r = cgroup_confine(&z->host->cgroups, z->group, &limits, h.pid, err);
	if (r == 0)
		r = send_orders(z, go[0], broker[1], err);
	z->fd = take_fd(&broker[0]);
	z->status_fd = take_fd(&status[0]);
	if (r == 0)
		r = loop_io_add(z->host->loop, z->fd, EPOLLIN, on_io, z, &z->io);
	return r;
}

static int start(struct zygote *z, struct err *err)
{
	int go[2] = {-1, -1}, status[2] = {-1, -1}, broker[2] = {-1, -1};
	int *const all[] = {go, status, broker};
	int r = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, go) < 0 ||
	    pipe2(status, O_CLOEXEC | O_NONBLOCK) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, broker) < 0 ||
	    fd_set_nonblock(broker[0], true) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot make a socket pair");
	if (r == 0)
		r = hatch(z, go, status, broker, err);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		close_fd(&all[i][0]);
		close_fd(&all[i][1]);
	}
	return r;
}

void zygote_start(struct zygote *z)
{
	struct err err = {0};

	if (!z->warm || z->child || z->is_given_up)
		return;
	if (!z->timer)
		z->timer = loop_timer_new(z->host->loop, on_timer, z);
	loop_timer_set_in(z->timer, START_US);
	if (start(z, &err) == 0)
		return;
	log_warn("zygote.failed", "error='%s'", err.message);
	if (z->child)
		zygote_suspect(z, "it could not be started");
	else
		try_again(z);
}

void zygote_done(struct zygote *z)
{
	loop_timer_free(z->timer);
	z->timer = NULL;
	if (z->child) {
		(void)pidfd_send_signal(loop_child_pidfd(z->child), SIGKILL, NULL, 0);
		(void)waitid(P_PIDFD, (id_t)loop_child_pidfd(z->child), &(siginfo_t){0}, WEXITED);
		loop_child_remove(z->child);
		z->child = NULL;
	}
	hang_up(z);
	fail_waits(z);
	if (z->warm)
		(void)!zygote_remove_group(z, REMOVAL_SHORT_US);
}

int zygote_remove_group(const struct zygote *z, uint64_t most_us)
{
	uint64_t until_us = clock_steady_us() + most_us;
	int r;

	/* Forks that have not joined their sandboxes die with it, but not at once. */
	while ((r = cgroup_remove(&z->host->cgroups, z->group)) < 0 &&
	       clock_steady_us() < until_us) {
		cgroup_kill(&z->host->cgroups, z->group);
		(void)usleep(REMOVAL_EVERY_US);
	}
	return r;
}

static void on_fork_timeout(struct loop *loop, void *arg)
{
	struct wait *w = arg;
	struct err err;

	(void)loop;
	zygote_suspect(w->zygote, "it does not answer");
	(void)err_set(&err, ERR_TIMEOUT, 0, "the zygote does not answer");
	wait_end(w, &err);
}

/* Returns their number. */
static int open_fds(struct guest_host *host, const char *id, pid_t agent, int fds[FDS_MAX],
                    struct err *err)
{
	int n = 0, r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(namespaces); i++) {
		char path[48];

		(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)agent, namespaces[i]);
		fds[n] = open(path, O_RDONLY | O_CLOEXEC);
		if (fds[n] < 0)
			r = err_set(err, ERR_GONE, errno, "the sandbox has ended");
		else
			n++;
	}
	if (r == 0)
		r = cgroup_open_user(&host->cgroups, id, fds + n, err);
	if (r >= 0)
		return n + r;
	while (n > 0)
		(void)close(fds[--n]);
	return r;
}

static int send_request(struct zygote *z, uint64_t number, const char *id, pid_t agent,
                        uint32_t open_files, const char *tag, struct err *err)
{
	struct zygote_request req = {.number = number,
	                             .open_files = open_files,
	                             .instructions = (uint32_t)zygote_no_setns_len};
	int fds[FDS_MAX];
	int n = open_fds(z->host, id, agent, fds, err);
	ssize_t len;

	static_assert(FDS_MAX <= FD_PASS_MAX, "a request needs a second message");
	if (n < 0)
		return n;
	assert(zygote_no_setns_len <= ARRAY_SIZE(req.code));
	(void)snprintf(req.tag, sizeof(req.tag), "%s", tag);
	memcpy(req.code, zygote_no_setns, zygote_no_setns_len * sizeof(req.code[0]));
	len = fd_send(z->fd, &req, sizeof(req), fds, (size_t)n);
	while (n > 0)
		(void)close(fds[--n]);
	return len < 0 ? err_set(err, ERR_UNAVAILABLE, (int)-len, "the zygote takes no more") : 0;
}

int zygote_fork(struct zygote *z, const char *id, pid_t agent, uint32_t open_files, const char *tag,
                guest_forked_fn fn, void *arg, struct err *err)
{
	struct wait *w;
	int r;

	if (!z->is_ready || z->n_waits >= WAITS_MAX)
		return err_set(err, ERR_UNAVAILABLE, EAGAIN, "no zygote is ready");
	r = send_request(z, ++z->last_number, id, agent, open_files, tag, err);
	if (r < 0)
		return r;
	w = xnew0(struct wait);
	*w = (struct wait){.zygote = z, .number = z->last_number, .fn = fn, .arg = arg};
	w->timer = loop_timer_new(z->host->loop, on_fork_timeout, w);
	loop_timer_set_in(w->timer, FORK_US);
	list_append(&z->waits, &w->link);
	z->n_waits++;
	return 0;
}
