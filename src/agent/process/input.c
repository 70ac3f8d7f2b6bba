// SPDX-License-Identifier: Apache-2.0
#include "agent/process/input.h"

#include "proto/frame.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>

void input_init(struct input *in, void (*on_change)(void *arg), void *arg)
{
	*in = (struct input){
		.fd = -1, .bytes = BUF_INIT(2 * FRAME_WINDOW), .on_change = on_change, .arg = arg};
}

static void close_now(struct input *in)
{
	loop_io_removep(&in->io);
	if (in->fd >= 0) {
		(void)shutdown(in->fd, SHUT_WR); /* a kernel's socket stays open to be read */
		(void)close(in->fd);
	}
	in->fd = -1;
	buf_done(&in->bytes);
	in->on_change(in->arg);
}

void input_done(struct input *in)
{
	in->on_change = NULL;
	loop_io_removep(&in->io);
	if (in->fd >= 0)
		(void)close(in->fd);
	in->fd = -1;
	buf_done(&in->bytes);
}

/*
 * A terminal has no end of file but a byte that says so. On a line that is already begun the first
 * one only hands the line over, so a second must follow. Where the queue is full it is tried again
 * when there is room.
 */
static bool write_veof(struct input *in)
{
	struct termios t;
	char bytes[2];
	size_t n = in->last == '\n' || in->last == '\0' ? 1 : 2;

	if (tcgetattr(in->fd, &t) < 0 || t.c_cc[VEOF] == _POSIX_VDISABLE)
		return true;
	bytes[0] = bytes[1] = (char)t.c_cc[VEOF];
	return write(in->fd, bytes, n) >= 0 || errno != EAGAIN;
}

/* Who has closed the other end will read nothing more. After an INPUT_END the host sends nothing
 * that could be lost, so it need not know. */
static void refuse(struct input *in)
{
	in->is_refused = !in->is_ending;
	close_now(in);
}

static void write_some(struct input *in)
{
	while (in->bytes.len > 0) {
		ssize_t n = write(in->fd, in->bytes.data, in->bytes.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			refuse(in); /* EPIPE */
			return;
		}
		in->last = in->bytes.data[n - 1];
		buf_consume(&in->bytes, (size_t)n);
	}
	if (in->bytes.len == 0 && in->is_ending) {
		if (!in->is_pty || write_veof(in)) {
			close_now(in);
			return;
		}
	}
	if (in->bytes.len == 0)
		buf_done(&in->bytes);
	loop_io_set(in->io, in->bytes.len > 0 || in->is_ending ? EPOLLOUT : in->idle_events);
	in->on_change(in->arg);
}

static void input_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct input *in = arg;

	(void)loop;
	/* With nothing to write only the reader's end can have woken us. */
	if ((events & (EPOLLERR | EPOLLHUP)) && !in->is_pty)
		refuse(in);
	else
		write_some(in);
}

int input_open(struct input *in, struct loop *loop, int fd, bool is_pty)
{
	int r = loop_io_add(loop, fd, EPOLLOUT, input_on_io, in, &in->io);
	struct stat st;

	if (r < 0)
		return r;
	/* A pipe says when its reader closes it. A terminal's and a kernel's ends are seen
	 * elsewhere. */
	in->idle_events = fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) ? EPOLLERR : 0;
	loop_io_set(in->io, in->idle_events);
	in->fd = fd;
	in->is_pty = is_pty;
	return 0;
}

int input_put(struct input *in, const void *data, size_t len)
{
	if (in->is_ending)
		return -EPROTO;
	if (len > in->told + FRAME_WINDOW - in->arrived)
		return -EPROTO;
	in->arrived += len;
	if (in->fd < 0) {
		in->on_change(in->arg);
		return 0;
	}
	if (buf_append(&in->bytes, data, len) < 0)
		return -EPROTO;
	write_some(in);
	return 0;
}

void input_end(struct input *in)
{
	if (in->is_ending)
		return;
	in->is_ending = true;
	if (in->fd >= 0)
		write_some(in);
}

bool input_ack_due(const struct input *in, uint64_t *ret_count)
{
	uint64_t taken = in->arrived - in->bytes.len;

	*ret_count = taken;
	return taken > in->told && (in->bytes.len == 0 || taken - in->told >= FRAME_WINDOW / 4);
}

bool input_refusal_due(const struct input *in)
{
	return in->is_refused && !in->told_refusal && in->told == in->arrived;
}
