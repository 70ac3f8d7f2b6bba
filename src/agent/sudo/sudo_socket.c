// SPDX-License-Identifier: Apache-2.0
/*
 * An asker is hostile: its request is bounded in bytes and time, the number of connections too, and
 * no byte of its fds is ever read here. When it goes away, what it started gets a hangup.
 */
#include "agent/sudo/sudo_socket.h"

#include "agent/process/exec.h"
#include "agent/process/forks.h"
#include "agent/process/imprint_arrival.h"
#include "agent/process/launch.h"
#include "agent/process/zygote_arrival.h"
#include "agent/users/become.h"
#include "base/fd.h"
#include "proto/pack.h"
#include "proto/start.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#define VISITS_MAX      32
#define REQUEST_TIME_US 5000000
#define READ_SIZE       (64 * 1024)

struct visit {
	struct list link;
	struct sudo_socket *server;
	int fd;
	struct loop_io *io;
	struct loop_timer *timer; /* until the request is whole */
	struct buf in;
	int fds[SUDO_SOCKET_FDS];
	bool has_fds;
	struct ucred asker;
	char tag[SUDO_SOCKET_TAG_SIZE]; /* of one that comes to stay or that writes, or "" */
	bool is_writer;                 /* of an imprint */
	int writer_fd;                  /* its pidfd, or -1 */
	pid_t pid;                      /* 0 until it runs */
	int report_fd;
};

struct sudo_socket {
	struct agent *agent;
	int fd;
	struct loop_io *io;
	struct list visits;
	size_t n_visits;
};

static void visit_free(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

static void visit_end(struct visit *v)
{
	loop_io_removep(&v->io);
	loop_timer_free(v->timer);
	v->timer = NULL;
	buf_done(&v->in);
	for (size_t i = 0; i < SUDO_SOCKET_FDS; i++)
		if (v->fds[i] >= 0)
			(void)close(v->fds[i]);
	close_fd(&v->report_fd);
	close_fd(&v->writer_fd);
	(void)close(v->fd);
	list_remove(&v->link);
	v->server->n_visits--;
	loop_defer(v->server->agent->loop, visit_free, v);
}

static void answer(struct visit *v, enum exit_how how, uint32_t value, const char *message)
{
	auto_call(buf_done) struct buf out = BUF_INIT(512);
	struct pack p = {.out = &out};

	pack_u8(&p, (uint8_t)how);
	pack_u32(&p, value);
	pack_str(&p, message);
	/* An asker that has filled its socket's buffer does not want to know. */
	(void)send(v->fd, buf_str(&out), out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void build_environment(struct environment *e, const struct sudo_request *r,
                              const struct identity *id, const struct ucred *asker)
{
	struct identity own;
	struct err ignored; /* then its number is all that there is */
	char number[16];

	if (!r->has_whole_env) {
		environment_defaults(e, id);
		(void)snprintf(number, sizeof(number), "%u", (unsigned)asker->uid);
		if (identity_find(number, &own, &ignored) == 0 && own.name[0])
			environment_set(e, "SUDO_USER", own.name);
		environment_set(e, "SUDO_UID", number);
		(void)snprintf(number, sizeof(number), "%u", (unsigned)asker->gid);
		environment_set(e, "SUDO_GID", number);
	}
	for (size_t i = 0; i < r->envc; i++)
		environment_put(e, r->env[i]);
}

/*
 * Root and the sandbox's own user may. Others are those of services (www-data, nobody) and those
 * that somebody made inside: of them only members of the group that is asked everywhere.
 */
static bool may_become_others(const struct visit *v)
{
	static const char *const groups[] = {"sudo", "wheel", "admin"};
	gid_t gids[IDENTITY_GROUPS_MAX] = {v->asker.gid};
	socklen_t len = sizeof(gids) - sizeof(gids[0]);
	struct identity own;
	struct names *names;
	char name[32];
	struct err err;
	bool may = v->asker.uid == 0 ||
	           (identity_find("", &own, &err) == 0 && v->asker.uid == own.uid);

	if (may)
		return true;
	if (getsockopt(v->fd, SOL_SOCKET, SO_PEERGROUPS, gids + 1, &len) < 0)
		len = 0;
	names = names_new();
	for (size_t i = 0; !may && i <= len / sizeof(gids[0]); i++) {
		names_group(names, gids[i], name, sizeof(name));
		for (size_t k = 0; k < ARRAY_SIZE(groups); k++)
			may |= strcmp(name, groups[k]) == 0;
	}
	names_free(names);
	return may;
}

static noreturn void run_child(const struct settings *s, const struct sudo_request *r,
                               const struct visit *v, int report_fd)
{
	int fds[LAUNCH_FDS] = {v->fds[0], v->fds[1], v->fds[2], -1, report_fd};
	struct environment e = {0};
	struct identity id;
	struct err err;
	int cwd = v->fds[3];
	bool may = may_become_others(v); /* while its socket is here to be asked */

	/* The working directory is entered first: placing the fds closes its own. */
	if (become_member(s, &err) < 0 || fchdir(cwd) < 0 || launch_place_fds(fds, &err) < 0)
		_exit(127);
	(void)setsid();
	if (!may) {
		(void)err_set(&err, ERR_FORBIDDEN, EPERM, "this user is not in the group sudo");
		report_failure(&err);
	}
	if (identity_find(r->user, &id, &err) < 0 || become_user(s, &id, &err) < 0)
		report_failure(&err);
	build_environment(&e, r, &id, &v->asker);
	(void)exec_search(r->argv, &e, &err);
	report_failure(&err);
}

static int start_words(struct visit *v, const struct sudo_request *r)
{
	int report[2];
	pid_t pid;

	if (pipe2(report, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	pid = forks_fork(v->server->agent->forks);
	if (pid == 0)
		run_child(&v->server->agent->settings, r, v, report[1]);
	(void)close(report[1]);
	v->report_fd = report[0];
	if (pid < 0)
		return -EAGAIN;
	v->pid = pid;
	for (size_t i = 0; i < SUDO_SOCKET_FDS;
	     i++) { /* the asker's pipes must end when it ends them */
		(void)close(v->fds[i]);
		v->fds[i] = -1;
	}
	return 0;
}

static void deliver(const struct visit *v, const unsigned char *signals, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (signals[i] >= 1 && signals[i] <= 64 && kill(-v->pid, signals[i]) < 0)
			(void)kill(v->pid, signals[i]); /* it has not come to its setsid() yet */
}

/* It stays connected until its channel is begun. */
static int take_arrival(struct visit *v, const struct unpack *u)
{
	if (u->len < sizeof(v->tag))
		return 0;
	if (u->len > sizeof(v->tag) || u->data[sizeof(v->tag) - 1] != '\0')
		return -EPROTO;
	memcpy(v->tag, u->data, sizeof(v->tag));
	buf_done(&v->in);
	return zygote_arrival_knock(v->server->agent, v->tag, v->fd, v->asker.pid) ? -ECONNRESET
	                                                                           : 0;
}

/* Its memory is the source's once more, so it goes when nobody waits for it. */
static void end_writer(const struct visit *v)
{
	if (v->writer_fd >= 0)
		(void)syscall(SYS_pidfd_send_signal, v->writer_fd, SIGKILL, NULL, 0);
}

/* It is heard of once more when the imprint is whole. */
static int take_writer(struct visit *v, const struct unpack *u)
{
	if (u->len < sizeof(v->tag))
		return 0;
	if (u->len > sizeof(v->tag) || u->data[sizeof(v->tag) - 1] != '\0')
		return -EPROTO;
	memcpy(v->tag, u->data, sizeof(v->tag));
	v->is_writer = true;
	v->writer_fd = v->asker.pid > 1 ? (int)syscall(SYS_pidfd_open, v->asker.pid, 0) : -1;
	loop_timer_set_in(v->timer, IMPRINT_TIME_US);
	buf_done(&v->in);
	if (imprint_arrival_begin(v->server->agent, v->tag, v->asker.pid))
		return 0;
	end_writer(v);
	return -ECONNRESET;
}

static int read_imprint(struct visit *v)
{
	int fds[FD_PASS_MAX];
	size_t n_fds = 0;
	int32_t errnum = EPIPE; /* if it dies */
	ssize_t n = fd_recv(v->fd, &errnum, sizeof(errnum), fds, &n_fds);

	if (n == -EAGAIN)
		return 0;
	if (n != sizeof(errnum))
		errnum = EPIPE;
	imprint_arrival_end(v->server->agent, v->tag, errnum, fds, n_fds);
	return -ECONNRESET;
}

void sudo_socket_introduce(struct sudo_socket *d, const char *tag)
{
	list_for_each (&d->visits, struct visit, v, link) {
		if (v->is_writer || strcmp(v->tag, tag) != 0)
			continue;
		if (zygote_arrival_knock(d->agent, tag, v->fd, v->asker.pid))
			visit_end(v);
		return;
	}
}

static int try_request(struct visit *v)
{
	struct unpack u = {.data = (const unsigned char *)v->in.data, .len = v->in.len};
	struct sudo_request r;
	size_t len;
	int status;

	if (v->in.len < 4)
		return 0;
	len = unpack_u32(&u);
	if (len == SUDO_SOCKET_ARRIVAL)
		return take_arrival(v, &u);
	if (len == SUDO_SOCKET_IMPRINT)
		return take_writer(v, &u);
	if (len > SUDO_REQUEST_MAX || !v->has_fds)
		return -EPROTO;
	if (u.len < len)
		return 0;
	status = sudo_request_decode(u.data, len, &r);
	if (status < 0)
		return status;
	status = start_words(v, &r);
	sudo_request_done(&r);
	if (status >= 0)
		deliver(v, u.data + len, u.len - len);
	loop_timer_set(v->timer, UINT64_MAX);
	buf_done(&v->in);
	return status;
}

static int read_request(struct visit *v)
{
	size_t n_fds = FD_PASS_MAX;
	int fds[FD_PASS_MAX];
	char *room;
	ssize_t n;

	if (buf_reserve(&v->in, MIN((size_t)READ_SIZE, buf_room(&v->in)), &room) < 0)
		return -E2BIG;
	n = fd_recv(v->fd, room, MIN((size_t)READ_SIZE, buf_room(&v->in)), fds, &n_fds);
	if (n <= 0)
		return n == -EAGAIN ? 0 : -ECONNRESET;
	buf_commit(&v->in, (size_t)n);
	if (n_fds == SUDO_SOCKET_FDS && !v->has_fds) {
		memcpy(v->fds, fds, sizeof(v->fds));
		v->has_fds = true;
	} else if (n_fds > 0) {
		for (size_t i = 0; i < n_fds; i++)
			(void)close(fds[i]);
		return -EPROTO;
	}
	return try_request(v);
}

static int read_signals(const struct visit *v)
{
	unsigned char signals[16];
	ssize_t n = recv(v->fd, signals, sizeof(signals), MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	deliver(v, signals, (size_t)n);
	return 0;
}

static void visit_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct visit *v = arg;
	int r;

	(void)loop;
	(void)events;
	r = v->is_writer ? read_imprint(v) : v->pid == 0 ? read_request(v) : read_signals(v);
	if (r >= 0)
		return;
	if (v->pid > 0 && kill(-v->pid, SIGHUP) < 0)
		(void)kill(v->pid, SIGHUP);
	if (v->pid == 0 && r != -ECONNRESET)
		answer(v, EXIT_FAILED, (uint32_t)-r,
		       "the request is malformed or cannot be started");
	visit_end(v); /* its process is reaped like any other orphan */
}

static void visit_on_timer(struct loop *loop, void *arg)
{
	struct visit *v = arg;

	(void)loop;
	if (v->is_writer) {
		end_writer(v);
		imprint_arrival_end(v->server->agent, v->tag, ETIMEDOUT, NULL, 0);
	}
	visit_end(v);
}

static void sudo_socket_on_accept(struct loop *loop, uint32_t events, void *arg)
{
	struct sudo_socket *d = arg;
	int fd = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct visit *v;
	socklen_t len = sizeof(v->asker);

	(void)events;
	if (fd < 0)
		return;
	v = xnew0(struct visit);
	v->server = d;
	v->fd = fd;
	v->writer_fd = v->report_fd = v->fds[0] = v->fds[1] = v->fds[2] = v->fds[3] = -1;
	buf_init(&v->in, SUDO_REQUEST_MAX + 4);
	if (d->n_visits >= VISITS_MAX) {
		answer(v, EXIT_FAILED, EAGAIN, "too many at once");
	} else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &v->asker, &len) == 0 &&
	           loop_io_add(loop, fd, EPOLLIN, visit_on_io, v, &v->io) >= 0) {
		v->timer = loop_timer_new(loop, visit_on_timer, v);
		loop_timer_set_in(v->timer, REQUEST_TIME_US);
		list_append(&d->visits, &v->link);
		d->n_visits++;
		return;
	}
	(void)close(fd);
	free(v);
}

void sudo_socket_on_reaped(struct sudo_socket *d, pid_t pid, int status)
{
	list_for_each (&d->visits, struct visit, v, link) {
		struct report report;

		if (v->pid != pid)
			continue;
		if (read(v->report_fd, &report, sizeof(report)) == (ssize_t)sizeof(report)) {
			report.message[sizeof(report.message) - 1] = '\0';
			answer(v, EXIT_FAILED, (uint32_t)report.errnum, report.message);
		} else if (WIFSIGNALED(status)) {
			answer(v, EXIT_SIGNAL, (uint32_t)WTERMSIG(status), "");
		} else {
			answer(v, EXIT_CODE, (uint32_t)WEXITSTATUS(status), "");
		}
		visit_end(v);
		return;
	}
}

int sudo_socket_new(struct agent *a, struct sudo_socket **ret, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t len =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(SUDO_SOCKET_NAME));
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sudo_socket *d;
	int r;

	memcpy(address.sun_path + 1, SUDO_SOCKET_NAME, sizeof(SUDO_SOCKET_NAME) - 1);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) < 0 ||
	    listen(fd, VISITS_MAX) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the socket for sudo");
	d = xnew0(struct sudo_socket);
	d->agent = a;
	list_init(&d->visits);
	r = loop_io_add(a->loop, fd, EPOLLIN, sudo_socket_on_accept, d, &d->io);
	if (r < 0) {
		free(d);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the socket for sudo");
	}
	d->fd = take_fd(&fd);
	*ret = d;
	return 0;
}
