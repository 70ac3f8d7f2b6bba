// SPDX-License-Identifier: Apache-2.0
#include "agent/process/launch.h"

#include "agent/fileops/files.h"
#include "agent/process/exec.h"
#include "agent/process/forks.h"
#include "agent/process/standby.h"
#include "agent/users/become.h"
#include "base/fd.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define DEFAULT_ROWS 24
#define DEFAULT_COLS 80

/* The child's ends stand where the child has them, the agent's beside. */
struct ends {
	int child[LAUNCH_FDS];
	int ours[LAUNCH_FDS];
	int pty_fd; /* the terminal's other side, in child[0..2] too */
};

static void ends_done(struct ends *e)
{
	for (size_t i = 0; i < LAUNCH_FDS; i++) {
		if (e->child[i] >= 0 && e->child[i] != e->pty_fd)
			(void)close(e->child[i]);
		if (e->ours[i] >= 0)
			(void)close(e->ours[i]);
	}
	if (e->pty_fd >= 0)
		(void)close(e->pty_fd);
}

static int make_pipe(struct ends *e, size_t at, bool is_input)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	e->child[at] = fds[is_input ? 0 : 1];
	e->ours[at] = fds[is_input ? 1 : 0];
	return fd_set_nonblock(e->ours[at], true);
}

/*
 * /dev/ptmx may have been replaced by root inside: it is opened without waiting, and only a real
 * terminal knows TIOCGPTPEER, which gives the other side without a path.
 */
static int make_pty(struct ends *e, uint16_t rows, uint16_t cols)
{
	struct winsize size = {.ws_row = rows ? rows : DEFAULT_ROWS,
	                       .ws_col = cols ? cols : DEFAULT_COLS};
	int unlock = 0;
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0) /* ENOSPC: of terminals, not of disk */
		return errno == ENOSPC ? -EMFILE : -errno;
	e->ours[1] = fd;
	if (ioctl(fd, TIOCSPTLCK, &unlock) < 0 || ioctl(fd, TIOCSWINSZ, &size) < 0)
		return -errno;
	e->pty_fd = ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (e->pty_fd < 0)
		return -errno;
	e->ours[0] = fcntl(fd, F_DUPFD_CLOEXEC,
	                   0); /* epoll takes an fd once: one to read, one to write */
	if (e->ours[0] < 0)
		return -errno;
	e->child[0] = e->child[1] = e->child[2] = e->pty_fd;
	return 0;
}

static int make_socket(struct ends *e)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	e->child[LAUNCH_SOCKET_FD] = fds[0];
	e->ours[LAUNCH_SOCKET_FD] = fds[1];
	e->ours[0] = fcntl(fds[1], F_DUPFD_CLOEXEC, 0); /* as for a terminal */
	if (e->ours[0] < 0)
		return -errno;
	return fd_set_nonblock(e->ours[0], true); /* of both: they are one file */
}

static bool takes_input(const struct start *s)
{
	if (start_is_program(s->kind))
		return s->has_stdin;
	return s->op == FILE_WRITE || s->op == FILE_WATCH || s->op == FILE_TAR_IN ||
	       s->op == FILE_TRUST || s->op == FILE_ROOT_IN || s->op == FILE_ROOT_OUT ||
	       s->op == FILE_BUNDLE_OUT || s->op == FILE_BUNDLE_IN || s->op == FILE_DIAL ||
	       s->op == FILE_SIGNER;
}

static int make_ends(struct ends *e, const struct start *s)
{
	int r = make_pipe(e, REPORT_FD, /* is_input= */ false);

	if (r >= 0 && s->kind == START_EXEC && s->has_pty)
		return make_pty(e, s->rows, s->cols);
	if (r >= 0 && takes_input(s))
		r = make_pipe(e, 0, /* is_input= */ true);
	if (r >= 0)
		r = make_pipe(e, 1, /* is_input= */ false);
	if (r >= 0)
		r = make_pipe(e, 2, /* is_input= */ false);
	if (r >= 0 && s->kind != START_EXEC && start_is_program(s->kind))
		r = make_socket(e);
	return r;
}

/* The agent's 0, 1 and 2 are taken from its start; what lies on one of the other places is moved
 * away first, so that no place is overwritten before it was read. */
int launch_place_fds(const int given[LAUNCH_FDS], struct err *err)
{
	int fds[LAUNCH_FDS];

	for (int i = 0; i < LAUNCH_FDS; i++) {
		fds[i] = given[i];
		if (fds[i] >= 0 && fds[i] < LAUNCH_FDS && fds[i] != i)
			fds[i] = fcntl(given[i], F_DUPFD_CLOEXEC, LAUNCH_FDS);
		if (fds[i] < 0 && given[i] >= 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot move an fd");
	}
	for (int i = 0; i < LAUNCH_FDS; i++) {
		if (fds[i] < 0)
			(void)close(i);
		else if (fds[i] == i ? fcntl(i, F_SETFD, 0) < 0 : dup2(fds[i], i) < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot place an fd");
	}
	if (fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC) < 0 ||
	    syscall(SYS_close_range, REPORT_FD + 1, ~0U, 0) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot close the agent's fds");
	return 0;
}

void launch_run(const struct settings *settings, const struct start *s, const int fds[LAUNCH_FDS],
                const struct err *failure)
{
	struct err err;

	if (launch_place_fds(fds, &err) < 0)
		_exit(127);
	if (failure)
		report_failure(failure);
	if (start_is_program(s->kind))
		exec_run(settings, s);
	else
		files_run(settings, s);
}

static noreturn void run_child(struct agent *a, const struct start *s, struct ends *e)
{
	struct settings settings = a->settings;
	struct err err;
	int r = become_member(&settings, &err);

	settings.n_cgroup_fds = 0;
	if (e->child[0] < 0)
		e->child[0] = a->null_fd;
	launch_run(&settings, s, e->child, r < 0 ? &err : NULL);
}

static struct launched take_ours(struct ends *e, pid_t pid)
{
	return (struct launched){.pid = pid,
	                         .report_fd = take_fd(&e->ours[REPORT_FD]),
	                         .in_fd = take_fd(&e->ours[0]),
	                         .out_fd = take_fd(&e->ours[1]),
	                         .aux_fd = take_fd(&e->ours[2]),
	                         .socket_fd = take_fd(&e->ours[LAUNCH_SOCKET_FD])};
}

int launch(struct agent *a, const struct start *s, struct launched *ret, struct err *err)
{
	auto_call(ends_done) struct ends e = {{-1, -1, -1, -1, -1}, {-1, -1, -1, -1, -1}, -1};
	int r = make_ends(&e, s);
	pid_t pid;

	if (r < 0)
		return err_set(err, ERR_UNAVAILABLE, -r, "the agent cannot make a %s",
		               s->kind == START_EXEC && s->has_pty ? "terminal" : "pipe");
	pid = standby_take(a->standby, s, e.child);
	standby_defer(a->standby);
	if (pid == 0) {
		pid = forks_fork(a->forks);
		if (pid == 0)
			run_child(a, s, &e);
	}
	if (pid < 0)
		return err_set(err, ERR_UNAVAILABLE, errno, "the agent cannot fork");
	*ret = take_ours(&e, pid);
	return 0;
}

int launch_without_fork(struct agent *a, const struct start *s, struct launched *ret,
                        int theirs[LAUNCH_SOCKET_FD + 1], struct err *err)
{
	auto_call(ends_done) struct ends e = {{-1, -1, -1, -1, -1}, {-1, -1, -1, -1, -1}, -1};
	int r = make_ends(&e, s);

	if (r >= 0) {
		e.child[0] = fcntl(a->null_fd, F_DUPFD_CLOEXEC, 0);
		r = e.child[0] < 0 ? -errno : 0;
	}
	if (r < 0)
		return err_set(err, ERR_UNAVAILABLE, -r, "the agent cannot make a pipe");
	*ret = take_ours(&e, 0);
	(void)close(take_fd(&ret->report_fd));
	for (int i = 0; i <= LAUNCH_SOCKET_FD; i++)
		theirs[i] = take_fd(&e.child[i]);
	return 0;
}
