// SPDX-License-Identifier: Apache-2.0
#include "loop/starter.h"

#include "base/fd.h"
#include "base/log.h"

#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ANSWER_MS 20000 /* normally less than 1 ms; more on a loaded host */

struct starter {
	int fd;
	struct loop_child *child; /* NULL: it has died */
	loop_fn lost;
	void *arg;
};

struct request {
	uint32_t job;
	uint32_t len;
	char data[STARTER_ORDER_MAX];
};

struct reply {
	int32_t errnum;
	int32_t pid;
};

/* The starter's own state. */
struct self {
	int fd;
	const struct starter_spec *spec;
	sigset_t mask; /* that a child begins with */
};

static pid_t clone_child(uint64_t flags, int *ret_pidfd)
{
	struct clone_args args = {.flags = CLONE_PIDFD | flags,
	                          .exit_signal = flags & CLONE_PARENT ? 0 : SIGCHLD,
	                          .pidfd = (uint64_t)(uintptr_t)ret_pidfd};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static int start(const struct self *self, const struct starter_job *job,
                 const struct starter_order *order, struct reply *reply, int *ret_pidfd)
{
	reply->pid = clone_child(CLONE_PARENT, ret_pidfd);
	if (reply->pid < 0)
		return -errno;
	if (reply->pid == 0) {
		(void)close(self->fd);
		(void)sigprocmask(SIG_SETMASK, &self->mask, NULL);
		_exit(job->run(order, job->arg) == 0 ? 0 : 1);
	}
	return 0;
}

static void serve_one(const struct self *self)
{
	struct request req;
	struct reply reply = {0};
	int fds[FD_PASS_MAX], pidfd = -1, r;
	struct starter_order order = {.data = req.data, .fds = fds};
	ssize_t n = fd_recv(self->fd, &req, sizeof(req), fds, &order.n_fds);

	if (n < (ssize_t)offsetof(struct request, data))
		_exit(0); /* the owner is gone */
	order.len = req.len;
	if (req.job >= self->spec->n_jobs ||
	    n != (ssize_t)(offsetof(struct request, data) + req.len))
		r = -EINVAL;
	else if (self->spec->jobs[req.job].is_here)
		r = self->spec->jobs[req.job].run(&order, self->spec->jobs[req.job].arg);
	else
		r = start(self, &self->spec->jobs[req.job], &order, &reply, &pidfd);
	reply.errnum = r < 0 ? -r : 0;
	for (size_t i = 0; i < order.n_fds; i++)
		(void)close(fds[i]);
	if (fd_send(self->fd, &reply, sizeof(reply), &pidfd, pidfd < 0 ? 0 : 1) < 0)
		_exit(1);
	if (pidfd >= 0)
		(void)close(pidfd);
}

/* Signals that go to a whole group are for the owner alone. */
static _Noreturn void serve(struct self *self, pid_t owner)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &self->mask);
	(void)prctl(PR_SET_NAME, self->spec->name, 0, 0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != owner)
		_exit(1);
	for (size_t i = 0; i < self->spec->n_shed; i++)
		if (self->spec->shed[i] >= 0)
			(void)close(self->spec->shed[i]);
	for (;;)
		serve_one(self);
}

static void on_exit_of_starter(struct loop *loop, int wait_status, void *arg)
{
	struct starter *s = arg;

	log_warn("starter.ended", "wait_status=0x%x", (unsigned)wait_status);
	s->child = NULL;
	s->lost(loop, s->arg);
}

int starter_new(struct loop *loop, const struct starter_spec *spec, struct starter **ret)
{
	struct starter *s;
	const pid_t owner = getpid();
	int pair[2], pidfd = -1, r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = clone_child(0, &pidfd);
	r = pid < 0 ? -errno : 0;
	if (pid == 0) {
		struct self self = {.fd = pair[1], .spec = spec};

		(void)close(pair[0]);
		serve(&self, owner);
	}
	(void)close(pair[1]);
	s = xnew0(struct starter);
	*s = (struct starter){.fd = pair[0], .lost = spec->lost, .arg = spec->arg};
	if (r == 0)
		r = loop_child_take(loop, pidfd, on_exit_of_starter, s, &s->child);
	if (r < 0) {
		starter_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

/* The starter holds nothing that could be lost, so it is killed and reaped here at any moment. */
void starter_free(struct starter *s)
{
	if (!s)
		return;
	if (s->child) {
		const int pidfd = loop_child_pidfd(s->child);

		(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
		(void)waitid(P_PIDFD, (id_t)pidfd, &(siginfo_t){0}, WEXITED);
		loop_child_remove(s->child);
	}
	(void)close(s->fd);
	free(s);
}

static int await_answer(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int r;

	do
		r = poll(&p, 1, ANSWER_MS);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r == 0 ? -ETIMEDOUT : 0;
}

/* A late starter is killed: its answer would be taken for the answer to the next request. */
static int receive(struct starter *s, struct reply *reply, int *ret_pidfd)
{
	int fds[FD_PASS_MAX], r = await_answer(s->fd);
	size_t n_fds = 0;

	if (r == 0 && fd_recv(s->fd, reply, sizeof(*reply), fds, &n_fds) != sizeof(*reply))
		r = -EPIPE;
	if (r < 0 && s->child)
		(void)pidfd_send_signal(loop_child_pidfd(s->child), SIGKILL, NULL, 0);
	*ret_pidfd = n_fds > 0 ? fds[0] : -1;
	return r < 0 ? r : -reply->errnum;
}

int starter_ask(struct starter *s, size_t job, const struct starter_order *order, pid_t *ret_pid,
                int *ret_pidfd)
{
	struct request req = {.job = (uint32_t)job, .len = (uint32_t)order->len};
	struct reply reply = {0};
	int pidfd = -1;
	ssize_t n;
	int r;

	if (order->len > sizeof(req.data))
		return -E2BIG;
	if (order->len > 0)
		memcpy(req.data, order->data, order->len);
	n = fd_send(s->fd, &req, offsetof(struct request, data) + order->len, order->fds,
	            order->n_fds);
	r = n < 0 ? (int)n : receive(s, &reply, &pidfd);
	if (r < 0)
		return r;
	if (ret_pidfd) {
		*ret_pid = reply.pid;
		*ret_pidfd = pidfd;
	}
	return 0;
}
