// SPDX-License-Identifier: Apache-2.0
#include "vmm/line.h"

#include "base/clock.h"
#include "base/units.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define READ_SIZE   PORT_DATA_MAX
#define LAST_READS  16           /* more than a socket holds */
#define TO_PORT_LOW (256 * 1024) /* above it the connection is not read */
#define TO_PORT_MAX (TO_PORT_LOW + (LAST_READS + 2) * (READ_SIZE + PORT_HEAD_SIZE))
#define TO_FD_LOW   (256 * 1024) /* above it the port is not read */

static void watch(struct line *l)
{
	loop_io_set(l->port_io,
	            (l->to_fd.len < TO_FD_LOW ? EPOLLIN : 0) | (l->to_port.len > 0 ? EPOLLOUT : 0));
	if (l->io)
		loop_io_set(l->io, (l->to_port.len < TO_PORT_LOW && !l->is_held ? EPOLLIN : 0) |
		                           (l->to_fd.len > 0 ? EPOLLOUT : 0));
}

static void hang_up(struct line *l)
{
	loop_io_removep(&l->io);
	if (l->fd >= 0)
		(void)close(take_fd(&l->fd));
	buf_done(&l->to_fd);
}

/* False if it cannot be written to any more. */
static bool flush(int fd, struct buf *out)
{
	while (out->len > 0) {
		ssize_t n = send(fd, out->data, out->len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS;
		buf_consume(out, (size_t)n);
	}
	buf_done(out);
	return true;
}

/* Returns 1 if there may be more, 0 if not now, < 0 if it has ended. */
static int read_connection(struct line *l)
{
	static char bytes[READ_SIZE];
	ssize_t n = recv(l->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ECONNRESET;
	return port_put(&l->to_port, l->number, bytes, (size_t)n) < 0 ? -E2BIG : 1;
}

static void on_connection(struct loop *loop, uint32_t events, void *arg)
{
	struct line *l = arg;
	int r = 0;

	(void)loop;
	if ((events & EPOLLOUT) && !flush(l->fd, &l->to_fd))
		r = -EPIPE;
	if (r == 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		r = read_connection(l);
	if (r < 0) {
		(void)!port_put_end(&l->to_port,
		                    l->number); /* without it the next one's number tells */
		hang_up(l);
	}
	(void)flush(l->port_fd, &l->to_port);
	watch(l);
}

static void on_accept(struct loop *loop, uint32_t events, void *arg)
{
	struct line *l = arg;
	int fd = accept4(l->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0)
		return;
	/* The last bytes of the old connection may hold a start that was already acknowledged to a
	 * client. */
	for (int i = 0; i < LAST_READS && l->fd >= 0 && read_connection(l) > 0; i++)
		continue;
	hang_up(l);
	if (loop_io_add(loop, fd, EPOLLIN, on_connection, l, &l->io) < 0) {
		(void)close(fd);
		return;
	}
	l->fd = fd;
	l->number++;
	watch(l);
}

static void on_record(struct line *l, const struct port_record *r)
{
	if (r->connection == 0)
		l->ops->on_control((enum port_kind)(unsigned char)r->data[0], r->data + 1,
		                   r->len - 1, l->arg);
	else if (r->connection == l->number && l->fd >= 0 && r->len == 0)
		hang_up(l);
	else if (r->connection == l->number && l->fd >= 0 &&
	         buf_append(&l->to_fd, r->data, r->len) < 0)
		abort(); /* the cap has room for a read beyond the low mark */
}

/* A failure here needs no handling: QEMU ends too, and that is reported. */
static void on_port(struct loop *loop, uint32_t events, void *arg)
{
	struct line *l = arg;
	struct port_record record;
	char *room;
	ssize_t n;
	int r;

	(void)loop;
	if ((events & EPOLLOUT) && !flush(l->port_fd, &l->to_port))
		buf_done(&l->to_port);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		if (buf_reserve(&l->from_port, READ_SIZE, &room) < 0)
			abort(); /* the cap has room for a record and a read */
		n = recv(l->port_fd, room, READ_SIZE, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			loop_io_set(l->port_io, 0);
			return;
		}
		buf_commit(&l->from_port, n < 0 ? 0 : (size_t)n);
	}
	while ((r = port_get(&l->from_port, &record)) > 0) {
		on_record(l, &record);
		port_consume(&l->from_port, &record);
	}
	if (r < 0) {
		loop_io_set(l->port_io, 0);
		l->ops->on_broken(l->arg);
		return;
	}
	if (l->fd >= 0 && !flush(l->fd, &l->to_fd))
		hang_up(l);
	watch(l);
}

void line_hold(struct line *l, bool on)
{
	l->is_held = on;
	if (l->listen_io)
		loop_io_set(l->listen_io, on ? 0 : EPOLLIN);
	watch(l);
}

int line_send_control(struct line *l, enum port_kind kind, const char *text, size_t len)
{
	int r = port_put_control(&l->to_port, kind, text, len);

	if (r >= 0) {
		(void)flush(l->port_fd, &l->to_port);
		watch(l);
	}
	return r;
}

int line_listen(struct line *l, int listen_fd, struct err *err)
{
	int r = loop_io_add(l->loop, listen_fd, EPOLLIN, on_accept, l, &l->listen_io);

	l->listen_fd = listen_fd;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot serve the listener") : 0;
}

int line_open(struct line *l, struct loop *loop, int port_fd, const struct line_ops *ops, void *arg,
              struct err *err)
{
	int r;

	*l = (struct line){.ops = ops, .arg = arg, .loop = loop, .port_fd = port_fd, .fd = -1};
	/* Higher than any number that the guest has seen, also before it was copied. */
	l->number = (uint32_t)(clock_wall_us() / SECOND_US);
	buf_init(&l->from_port, 2 * (PORT_HEAD_SIZE + PORT_DATA_MAX));
	buf_init(&l->to_port, TO_PORT_MAX);
	buf_init(&l->to_fd, TO_FD_LOW + 2 * (PORT_HEAD_SIZE + PORT_DATA_MAX));
	r = loop_io_add(loop, port_fd, EPOLLIN, on_port, l, &l->port_io);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch the guest's port") : 0;
}
