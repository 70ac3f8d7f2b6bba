// SPDX-License-Identifier: Apache-2.0
/*
 * A child gets the writing end of a pipe with the other fds, and closes it with the others. So the
 * end of the pipe tells that all children have closed their fds. To wait for that, the agent closes
 * its own writing end. The next fork then makes another pipe, and is waited for as well.
 */
#include "agent/process/forks.h"

#include <fcntl.h>
#include <sys/epoll.h>

struct forks {
	struct loop *loop;
	int read_fd, write_fd; /* -1: nothing was forked since the last wait */
	int awaited_fd;        /* the reading end of the pipe that is waited for, or -1 */
	struct loop_io *io;
	loop_fn done;
	void *arg;
};

struct forks *forks_new(struct agent *a)
{
	struct forks *f = xnew0(struct forks);

	*f = (struct forks){.loop = a->loop, .read_fd = -1, .write_fd = -1, .awaited_fd = -1};
	return f;
}

pid_t forks_fork(struct forks *f)
{
	int fds[2];

	if (f->write_fd < 0 && pipe2(fds, O_CLOEXEC) == 0) { /* without it nobody is waited for */
		f->read_fd = fds[0];
		f->write_fd = fds[1];
	}
	return fork();
}

static void stop_watching(struct forks *f)
{
	loop_io_removep(&f->io);
	if (f->awaited_fd >= 0)
		(void)close(take_fd(&f->awaited_fd));
}

static void wait_for_next(struct forks *f);

static void forks_on_end(struct loop *loop, uint32_t events, void *arg)
{
	(void)loop;
	(void)events;
	stop_watching(arg);
	wait_for_next(arg);
}

static void wait_for_next(struct forks *f)
{
	loop_fn done = f->done;

	if (f->write_fd >= 0) {
		(void)close(take_fd(&f->write_fd));
		f->awaited_fd = take_fd(&f->read_fd);
		if (loop_io_add(f->loop, f->awaited_fd, EPOLLIN, forks_on_end, f, &f->io) == 0)
			return;
		stop_watching(f);
	}
	f->done = NULL;
	done(f->loop, f->arg);
}

void forks_await(struct forks *f, loop_fn done, void *arg)
{
	f->done = done;
	f->arg = arg;
	if (!f->io)
		wait_for_next(f);
}

void forks_stop_waiting(struct forks *f)
{
	stop_watching(f);
	f->done = NULL;
}
