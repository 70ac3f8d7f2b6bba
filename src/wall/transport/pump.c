// SPDX-License-Identifier: Apache-2.0
/*
 * A side is a socket and the bytes that wait to be written to it. It is watched for reading while
 * the other side's buffer has room and the pace allows it, and for writing while its own buffer has
 * bytes. A side that hung up while it is watched for nothing is removed from epoll, which would
 * report it again and again.
 */
#include "wall/transport/pump.h"

#include "base/units.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define READ_MAX      ((size_t)32 * 1024)
#define IDLE_US       (3600 * SECOND_US)
#define HALF_CLOSE_US (300 * SECOND_US) /* after the first end */

struct side {
	struct pump *pump;
	int fd;
	struct loop_io *io;
	struct buf out;
	struct pace *pace; /* of what is read from it */
	struct pace_turn turn;
	bool is_read_over, is_write_over, is_hung_up;
};

struct pump {
	struct pump_config config;
	struct side guest, up;
	struct loop_timer *idle;
	bool is_over;
};

static struct side *other(struct side *s)
{
	return s == &s->pump->guest ? &s->pump->up : &s->pump->guest;
}

static void finish(struct pump *p)
{
	if (p->is_over)
		return;
	p->is_over = true;
	p->config.done(p->config.loop, p->config.arg);
}

static void on_idle(struct loop *loop, void *arg)
{
	(void)loop;
	finish(arg);
}

static int side_read(struct side *s)
{
	struct side *to = other(s);
	size_t size = MIN(buf_room(&to->out), READ_MAX);
	char *room;
	ssize_t n;

	if (size == 0 || s->is_read_over)
		return 0;
	size = pace_allow(s->pace, size);
	if (size == 0) {
		pace_wait(s->pace, &s->turn);
		return 0;
	}
	if (buf_reserve(&to->out, size, &room) < 0)
		return 0;
	n = recv(s->fd, room, size, 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0) {
		s->is_read_over = true;
		return 0;
	}
	buf_commit(&to->out, (size_t)n);
	if (s == &s->pump->guest)
		s->pump->config.count(0, (uint64_t)n, s->pump->config.arg);
	else
		s->pump->config.count((uint64_t)n, 0, s->pump->config.arg);
	return 0;
}

static int side_write(struct side *s)
{
	if (s->out.len > 0) {
		ssize_t n = send(s->fd, s->out.data, s->out.len, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		buf_consume(&s->out, (size_t)n);
	}
	if (s->out.len == 0 && other(s)->is_read_over && !s->is_write_over) {
		(void)shutdown(s->fd, SHUT_WR);
		s->is_write_over = true;
	}
	return 0;
}

static void on_io(struct loop *loop, uint32_t events, void *arg);

static int side_watch(struct side *s)
{
	uint32_t events = 0;

	if (s->is_read_over && s->is_write_over) {
		loop_io_removep(&s->io);
		return 0;
	}
	if (!s->is_read_over && buf_room(&other(s)->out) > 0 && !pace_is_waiting(&s->turn))
		events |= EPOLLIN;
	if (s->out.len > 0)
		events |= EPOLLOUT;
	if (events == 0 && s->is_hung_up)
		loop_io_removep(&s->io);
	else if (!s->io)
		return loop_io_add(s->pump->config.loop, s->fd, events, on_io, s, &s->io);
	else
		loop_io_set(s->io, events);
	return 0;
}

static void on_turn(void *arg)
{
	struct side *s = arg;

	if (!s->pump->is_over && side_watch(s) < 0)
		finish(s->pump);
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct side *s = arg;
	struct pump *p = s->pump;
	int r = 0;

	(void)loop;
	if (p->is_over)
		return;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = side_read(s);
	if (r == 0)
		r = side_write(&p->guest);
	if (r == 0)
		r = side_write(&p->up);
	if (r == 0 && (events & EPOLLERR)) /* it is not watched for anything else then */
		r = -ECONNRESET;
	if (events & EPOLLHUP)
		s->is_hung_up = true;
	if (s->is_hung_up && s->is_read_over) { /* nobody is there to be written to */
		buf_done(&s->out);
		s->is_write_over = true;
	}
	if (r < 0 || (p->guest.is_write_over && p->up.is_write_over)) {
		finish(p);
		return;
	}
	loop_timer_set_in(p->idle,
	                  p->guest.is_read_over || p->up.is_read_over ? HALF_CLOSE_US : IDLE_US);
	if (side_watch(&p->guest) < 0 || side_watch(&p->up) < 0)
		finish(p);
}

static void side_init(struct side *s, struct pump *p, int fd, struct pace *pace)
{
	s->pump = p;
	s->fd = fd;
	s->pace = pace;
	pace_turn_init(&s->turn, on_turn, s);
	buf_init(&s->out, PUMP_BUFFER);
}

int pump_new(const struct pump_config *config, struct pump **ret)
{
	struct pump *p = xnew0(struct pump);
	int r;

	p->config = *config;
	p->idle = loop_timer_new(config->loop, on_idle, p);
	loop_timer_set_in(p->idle, IDLE_US);
	side_init(&p->guest, p, config->guest_fd, config->out_pace);
	side_init(&p->up, p, config->up_fd, config->in_pace);
	r = loop_io_add(config->loop, p->guest.fd, EPOLLIN, on_io, &p->guest, &p->guest.io);
	if (r == 0)
		r = loop_io_add(config->loop, p->up.fd, EPOLLIN | EPOLLOUT, on_io, &p->up,
		                &p->up.io);
	p->up.out.cap = MAX(PUMP_BUFFER, config->first->len);
	if (r == 0 && config->first->len > 0)
		r = buf_append(&p->up.out, config->first->data, config->first->len);
	if (r < 0) {
		pump_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

static void side_close(struct side *s)
{
	loop_io_removep(&s->io);
	pace_leave(&s->turn);
	(void)close(s->fd);
	buf_done(&s->out);
}

static void on_free(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void pump_free(struct pump *p)
{
	if (!p)
		return;
	p->is_over = true;
	side_close(&p->guest);
	side_close(&p->up);
	loop_timer_free(p->idle);
	loop_defer(p->config.loop, on_free, p);
}
