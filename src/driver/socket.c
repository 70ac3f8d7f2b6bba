// SPDX-License-Identifier: Apache-2.0
/*
 * The part of the R driver that R cannot say: reading and writing the socket at fd 3. R's own
 * connections take a file's name or an address, and a socket that was inherited has neither.
 * kernels/r/wire.R loads this with dyn.load() and calls it by .C(), which gives each argument as a
 * pointer: int for an integer, unsigned char for a raw vector.
 *
 * SIGINT has a meaning only while a call runs (kernels/PROTOCOL.md). R's handler just notes it, and
 * would let it strike the next call. So it is blocked here while the driver waits, and taken from a
 * signalfd. One that finds a message unread stays pending, and is R's as soon as it is unblocked.
 */
#include "driver/system_call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/poll.h>
#include <signal.h>
#include <sys/socket.h>

#define FIRST_NUMBER 100 /* of the driver's own descriptors, out of the way of the code's */
#define MASK_BYTES   8   /* of the kernel's signal sets */

EXPORT void socket_open(int *fd, int *out, int *err);
EXPORT void socket_wait(const int *fd);
EXPORT void socket_read_line(const int *fd, unsigned char *line, int *len);
EXPORT void socket_read(const int *fd, unsigned char *data, int *len);
EXPORT void socket_write(const int *fd, const unsigned char *data, int *len);
EXPORT void socket_put_back(const int *out, const int *err);

static int move(int fd)
{
	return (int)call(__NR_fcntl, fd, F_DUPFD_CLOEXEC, FIRST_NUMBER);
}

/* Moves fd 3 to where no child gets it, and keeps copies of the standard output and error. */
void socket_open(int *fd, int *out, int *err)
{
	*fd = move(3);
	*out = move(1);
	*err = move(2);
	if (*fd >= 0)
		(void)call(__NR_close, 3, 0, 0);
}

/* Before each call: whatever the last one did to them. */
void socket_put_back(const int *out, const int *err)
{
	(void)call(__NR_dup3, *out, 1, 0);
	(void)call(__NR_dup3, *err, 2, 0);
}

static long poll_both(int fd, int signals, struct pollfd *fds)
{
	fds[0] = (struct pollfd){.fd = fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = signals, .events = POLLIN};
	return call5(__NR_ppoll, (long)fds, 2, 0, 0, 0);
}

/* Until there is something to read, or the end. Drops each SIGINT that comes before. */
void socket_wait(const int *fd)
{
	unsigned long mask = 1UL << (SIGINT - 1), old = 0;
	unsigned char info[128]; /* struct signalfd_siginfo */
	struct pollfd fds[2];
	long signals;

	(void)call5(__NR_rt_sigprocmask, SIG_BLOCK, (long)&mask, (long)&old, MASK_BYTES, 0);
	signals = call5(__NR_signalfd4, -1, (long)&mask, MASK_BYTES, O_CLOEXEC, 0);
	for (;;) {
		long r = poll_both(*fd, (int)signals, fds);

		if ((r < 0 && r != -EINTR) || (r > 0 && fds[0].revents))
			break;
		if (r > 0)
			(void)call(__NR_read, signals, (long)info, sizeof(info));
	}
	if (signals >= 0)
		(void)call(__NR_close, signals, 0, 0);
	(void)call5(__NR_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, MASK_BYTES, 0);
}

/* Waits where some process made the socket non-blocking. */
static int is_passing(int fd, short events, long r)
{
	struct pollfd one = {.fd = fd, .events = events};

	if (r == -EAGAIN)
		(void)call5(__NR_ppoll, (long)&one, 1, 0, 0, 0);
	return r == -EAGAIN || r == -EINTR;
}

/* How much of it there was before the end; -1: it cannot be read. */
static int read_all(int fd, unsigned char *data, int len)
{
	int at = 0;

	while (at < len) {
		long r = call(__NR_read, fd, (long)(data + at), len - at);

		if (is_passing(fd, POLLIN, r))
			continue;
		if (r < 0)
			return -1;
		if (r == 0)
			break;
		at += (int)r;
	}
	return at;
}

void socket_read(const int *fd, unsigned char *data, int *len)
{
	*len = read_all(*fd, data, *len);
}

/* Up to *len bytes with the line's end. 0: the end; -1: it is no line, or cannot be read. */
void socket_read_line(const int *fd, unsigned char *line, int *len)
{
	for (int at = 0; at < *len; at++) {
		int r = read_all(*fd, line + at, 1);

		if (r <= 0) {
			*len = at > 0 ? -1 : r;
			return;
		}
		if (line[at] == '\n') {
			*len = at + 1;
			return;
		}
	}
	*len = -1;
}

/* *len is -1 afterwards if there is nobody to read it. */
void socket_write(const int *fd, const unsigned char *data, int *len)
{
	int at = 0;

	while (at < *len) {
		long r = call5(__NR_sendto, *fd, (long)(data + at), *len - at, MSG_NOSIGNAL, 0);

		if (is_passing(*fd, POLLOUT, r))
			continue;
		if (r <= 0) {
			*len = -1;
			return;
		}
		at += (int)r;
	}
}
