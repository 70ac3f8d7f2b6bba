// SPDX-License-Identifier: Apache-2.0
/*
 * Agent and standby share a socket pair, one message long: which of the fds are given, and the
 * START as the host sent it. The standby closes everything else first, and whatever pipe another
 * channel has: an end kept open in here would keep that channel's reader waiting.
 */
#include "agent/process/standby.h"

#include "agent/process/forks.h"
#include "agent/users/become.h"
#include "base/fd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define FIRST_US    50000 /* many sandboxes live shorter, and run code only */
#define PAUSE_US    10000
#define MESSAGE_MAX (32 * 1024)
/* Of the flags in /proc/PID/stat: PF_EXITING and PF_SIGNALED of include/linux/sched.h. */
#define IS_EXITING  0x4U
#define IS_SIGNALED 0x400U

/* Where a standby has its fds while it waits: above those of launch.h. */
enum { STANDBY_NULL_FD = LAUNCH_FDS, STANDBY_SOCKET_FD, STANDBY_FDS };

struct standby {
	struct agent *agent;
	struct loop_timer *timer;
	pid_t pid; /* 0: there is none */
	int fd;
};

static void drop(struct standby *s)
{
	if (s->fd >= 0)
		(void)close(take_fd(&s->fd));
	s->pid = 0;
}

static int keep_two(int null_fd, int socket_fd)
{
	const int null = fcntl(null_fd, F_DUPFD_CLOEXEC, STANDBY_FDS);
	const int sock = fcntl(socket_fd, F_DUPFD_CLOEXEC, STANDBY_FDS);

	if (null < 0 || sock < 0 || dup3(null, STANDBY_NULL_FD, O_CLOEXEC) < 0 ||
	    dup3(sock, STANDBY_SOCKET_FD, O_CLOEXEC) < 0 ||
	    syscall(SYS_close_range, STANDBY_FDS, ~0U, 0) < 0 ||
	    syscall(SYS_close_range, STDERR_FILENO + 1, LAUNCH_FDS - 1, 0) < 0)
		return -errno;
	return 0;
}

static noreturn void run_message(const struct settings *settings, const char *data, size_t len,
                                 const int *given, size_t n_given)
{
	int fds[LAUNCH_FDS];
	struct start start;
	size_t n = 0;

	for (size_t i = 0; i < LAUNCH_FDS; i++) {
		bool is_given = len > 0 && (unsigned char)data[0] & BIT(i);

		fds[i] = is_given && n < n_given ? given[n++] : -1;
	}
	if (n != n_given || len == 0 || start_decode(data + 1, len - 1, &start) < 0)
		_exit(127);
	if (fds[0] < 0)
		fds[0] = STANDBY_NULL_FD;
	launch_run(settings, &start, fds, NULL);
}

static noreturn void wait_for_start(struct standby *s, int socket_fd)
{
	struct settings settings = s->agent->settings;
	/* Not on the stack, which would be cleared, and so cost its pages while it waits. */
	char *data = malloc(MESSAGE_MAX);
	int given[FD_PASS_MAX];
	size_t n_given = 0;
	struct err err;
	ssize_t len;

	(void)prctl(PR_SET_NAME, "cloche-standby", 0, 0, 0);
	if (!data || become_member(&settings, &err) < 0 ||
	    keep_two(s->agent->null_fd, socket_fd) < 0)
		_exit(127);
	settings.n_cgroup_fds = 0;
	len = fd_recv(STANDBY_SOCKET_FD, data, MESSAGE_MAX, given, &n_given);
	if (len <= 0)
		_exit(0); /* the agent is gone */
	run_message(&settings, data, (size_t)len, given, n_given);
}

static void standby_make(struct loop *loop, void *arg)
{
	struct standby *s = arg;
	int pair[2];

	(void)loop;
	if (s->pid > 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	s->pid = forks_fork(s->agent->forks);
	if (s->pid == 0)
		wait_for_start(s, pair[1]);
	(void)close(pair[1]);
	s->fd = pair[0];
	if (s->pid < 0 || fd_set_nonblock(s->fd, true) < 0)
		drop(s); /* one that was forked sees the end of its socket */
}

struct standby *standby_new(struct agent *a)
{
	struct standby *s = xnew0(struct standby);

	s->agent = a;
	s->fd = -1;
	s->timer = loop_timer_new(a->loop, standby_make, s);
	loop_timer_set_in(s->timer, FIRST_US);
	return s;
}

void standby_defer(struct standby *s)
{
	loop_timer_set_in(s->timer, PAUSE_US);
}

void standby_renew(struct standby *s)
{
	drop(s); /* it sees the end of its socket */
	standby_defer(s);
}

static int open_stat(pid_t pid)
{
	char path[48];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	/* Root inside may have put something else there: nothing here waits for it. */
	return open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
}

/* "PID (NAME) STATE …", as proc_pid_stat(5) has it. NAME may hold anything, parentheses too. */
static bool read_stat(pid_t pid, char *state, unsigned *flags, unsigned long *pending)
{
	auto_fd int fd = open_stat(pid);
	char text[1024];
	const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *at;

	if (n <= 0)
		return false;
	text[n] = '\0';
	at = strrchr(text, ')');
	return at && sscanf(at + 1,
	                    " %c %*s %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
	                    " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu",
	                    state, flags, pending) == 3;
}

/*
 * Root inside may have stopped it, and whoever got it would wait for ever. Or killed it: on a busy
 * host it may take long until one that was sent a SIGKILL has run so far that its end is seen. It
 * would take what it is handed into its grave, though the exec came after the kill was over.
 */
static bool is_of_use(pid_t pid)
{
	unsigned long pending;
	unsigned flags;
	char state;

	return read_stat(pid, &state, &flags, &pending) && strchr("RSD", state) &&
	       !(flags & (IS_EXITING | IS_SIGNALED)) && pending == 0;
}

static int hand_over(struct standby *s, const struct start *start, const int fds[LAUNCH_FDS])
{
	auto_call(buf_done) struct buf message = BUF_INIT(MESSAGE_MAX);
	int given[LAUNCH_FDS], r;
	unsigned char mask = 0;
	size_t n = 0;

	for (size_t i = 0; i < LAUNCH_FDS; i++) {
		if (fds[i] < 0)
			continue;
		mask |= (unsigned char)BIT(i);
		given[n++] = fds[i];
	}
	r = buf_append(&message, &mask, 1);
	if (r >= 0)
		r = start_encode(start, &message);
	return r < 0 ? r : (int)fd_send(s->fd, message.data, message.len, given, n);
}

pid_t standby_take(struct standby *s, const struct start *start, const int fds[LAUNCH_FDS])
{
	pid_t pid = s->pid;

	if (pid == 0)
		return 0;
	if (!is_of_use(pid)) {
		(void)kill(pid, SIGKILL);
		drop(s);
		return 0;
	}
	if (hand_over(s, start, fds) < 0)
		return 0; /* too long: it can still serve another */
	drop(s);
	return pid;
}

pid_t standby_pid(const struct standby *s)
{
	return s->pid;
}

bool standby_on_reaped(struct standby *s, pid_t pid)
{
	if (pid != s->pid)
		return false;
	drop(s);
	return true;
}
