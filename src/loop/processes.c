// SPDX-License-Identifier: Apache-2.0
/*
 * Children are watched by their pidfd: it is readable when the process has ended, and then it is
 * waited for. Signals are blocked, and read from one signalfd.
 */
#include "loop/loop_private.h"

#include <assert.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

struct loop_child {
	struct loop *loop;
	loop_child_fn fn;
	void *arg;
	int pidfd;
	struct loop_io *io;
};

static void child_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct loop_child *c = arg;
	loop_child_fn fn = c->fn;
	void *fn_arg = c->arg;
	siginfo_t info = {0};
	int status = 0x7f00; /* not our child: it has ended, but we cannot know how */

	(void)events;
	if (waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED) == 0) {
		if (info.si_code == CLD_EXITED)
			status = info.si_status << 8;
		else
			status = info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
	}
	loop_child_remove(c);
	fn(loop, status, fn_arg);
}

int loop_child_add_named(struct loop *loop, int pidfd, loop_child_fn fn, void *arg,
                         struct loop_child **ret, const char *name)
{
	struct loop_child *c = xnew0(struct loop_child);
	int r;

	*c = (struct loop_child){.loop = loop, .fn = fn, .arg = arg, .pidfd = pidfd};
	r = loop_io_add_named(loop, pidfd, EPOLLIN, child_on_io, c, &c->io, name);
	if (r < 0) {
		free(c);
		return r;
	}
	*ret = c;
	return 0;
}

int loop_child_take_named(struct loop *loop, int pidfd, loop_child_fn fn, void *arg,
                          struct loop_child **ret, const char *name)
{
	int r = loop_child_add_named(loop, pidfd, fn, arg, ret, name);
	siginfo_t info;

	if (r == 0)
		return 0;
	(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 && errno == EINTR)
		continue;
	(void)close(pidfd);
	return r;
}

int loop_child_pidfd(const struct loop_child *c)
{
	return c->pidfd;
}

static void free_child(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void loop_child_remove(struct loop_child *c)
{
	if (!c)
		return;
	assert(c->pidfd >= 0); /* else it was removed, or its end was already reported */
	loop_io_removep(&c->io);
	(void)close(c->pidfd);
	c->pidfd = -1;
	loop_defer(c->loop, free_child, c);
}

static void signal_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct signalfd_siginfo info;

	(void)events;
	(void)arg;
	while (read(loop->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo < NSIG && loop->watches[info.ssi_signo].fn)
			loop->watches[info.ssi_signo].fn(loop, loop->watches[info.ssi_signo].arg);
}

int loop_signal_add(struct loop *loop, int signo, loop_fn fn, void *arg)
{
	int fd;

	assert(signo > 0 && signo < NSIG);
	(void)sigaddset(&loop->signals, signo);
	if (sigprocmask(SIG_BLOCK, &loop->signals, NULL) < 0)
		return -errno;
	fd = signalfd(loop->signal_fd, &loop->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	loop->watches[signo] = (struct signal_watch){fn, arg};
	if (loop->signal_fd >= 0)
		return 0;
	loop->signal_fd = fd;
	return loop_io_add(loop, fd, EPOLLIN, signal_on_io, NULL, &loop->signal_io);
}
