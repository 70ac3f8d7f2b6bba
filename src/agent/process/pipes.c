// SPDX-License-Identifier: Apache-2.0
/*
 * One read a source and turn, so that no channel can keep the loop to itself.
 *
 * A file operation has two pipes, data and records, and what it writes first must arrive first:
 * before data is read, the records that were there are.
 *
 * A kernel has two pipes and a socket, and what it says on the socket must not overtake what it has
 * printed. When the socket has something, first its bytes are counted and then those in the pipes:
 * so the pipes' hold all that was printed before the socket's. They are read first, over several
 * windows if need be; then it is the socket's turn, for no more than was counted, and the pipes
 * wait. Counting also keeps a child that writes without end from keeping the socket silent.
 */
#include "agent/process/pipes.h"

#include "base/fd.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>

#define READ_MAX     (64 * 1024)
#define PTY_OWED_MAX (64 * 1024) /* a terminal cannot tell how much it holds */

void source_close(struct source *s)
{
	loop_io_removep(&s->io);
	if (s->fd >= 0)
		(void)close(s->fd);
	s->fd = -1;
}

static void pause_all(struct channel *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->sources); i++)
		if (c->sources[i].io)
			loop_io_set(c->sources[i].io, 0);
}

/* True if it got bytes: there may be more. */
static bool read_up_to(struct source *s, size_t max)
{
	struct channel *c = s->channel;
	size_t len;
	char *room;
	ssize_t n;

	if (s->fd < 0)
		return false;
	if (output_reserve(&c->output, max, &room, &len) < 0) {
		pause_all(c);
		return false;
	}
	n = read(s->fd, room, len);
	if (n > 0) {
		output_commit(&c->output, s->stream, (size_t)n);
		s->owed -= MIN((size_t)n, s->owed);
		s->ahead -= MIN((size_t)n, s->ahead);
		channel_wake(c);
		return true;
	}
	if (n < 0 && errno == EINTR)
		return false;
	s->ahead = 0;
	if (n < 0 && errno == EAGAIN)
		s->owed = 0;
	else /* the end; a terminal says EIO */
		source_close(s);
	return false;
}

static bool read_once(struct source *s)
{
	return read_up_to(s, READ_MAX);
}

static size_t bytes_inside(const struct source *s)
{
	int n = 0;

	return s->fd >= 0 && ioctl(s->fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

/* True once all that was printed before the socket spoke is read. */
static bool read_pipes_first(struct channel *c)
{
	bool is_clear = true;

	if (c->turn == TURN_ANY) {
		c->turn = TURN_PIPES;
		c->sources[2].ahead = bytes_inside(&c->sources[2]);
		for (size_t i = 0; i < 2; i++)
			c->sources[i].ahead = bytes_inside(&c->sources[i]);
	}
	for (size_t i = 0; i < 2 && c->turn == TURN_PIPES; i++) {
		struct source *s = &c->sources[i];

		while (s->ahead > 0 && read_once(s))
			;
		is_clear = is_clear && s->ahead == 0;
	}
	if (is_clear)
		c->turn = TURN_SOCKET;
	return is_clear;
}

/* A window that is full leaves it the socket's turn. */
static void read_socket(struct source *s)
{
	struct channel *c = s->channel;
	size_t max;

	if (!read_pipes_first(c))
		return;
	max = s->ahead > 0 ? MIN(s->ahead, (size_t)READ_MAX) : 1; /* 0: it is at its end */
	if (read_up_to(s, max) || output_has_room(&c->output))
		c->turn = TURN_ANY;
}

static void read_records(struct channel *c)
{
	if (c->kind != START_FILE)
		return;
	while (read_once(&c->sources[1]))
		;
}

static void source_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct source *s = arg;

	(void)loop;
	(void)events;
	if (s == &s->channel->sources[2]) {
		read_socket(s);
	} else if (s->channel->turn != TURN_SOCKET) {
		if (s == &s->channel->sources[0])
			read_records(s->channel);
		(void)read_once(s);
	}
	channel_settle(s->channel);
}

int source_open(struct source *s, int fd, enum frame_stream stream, bool is_pty)
{
	int r = fd_set_nonblock(fd, true);

	s->fd = fd;
	s->stream = stream;
	s->is_pty = is_pty;
	if (r >= 0)
		r = loop_io_add(s->channel->agent->loop, fd, EPOLLIN, source_on_io, s, &s->io);
	if (r < 0)
		source_close(s);
	return r;
}

/* A terminal that owes is read until it says that it is empty: epoll would not. */
static void settle_debt(struct source *s)
{
	while (s->owed > 0 && read_once(s))
		;
}

void source_resume(struct source *s)
{
	if (!s->io || !output_has_room(&s->channel->output))
		return;
	loop_io_set(s->io, EPOLLIN);
	if (s->is_pty && s->owed > 0) {
		settle_debt(s);
		channel_settle(s->channel);
	}
}

void source_owe(struct source *s)
{
	if (s->fd < 0)
		return;
	s->owed = s->is_pty ? PTY_OWED_MAX : bytes_inside(s);
	if (s->is_pty)
		settle_debt(s);
}
