// SPDX-License-Identifier: Apache-2.0
#include "loop/packets.h"

#include "base/fd.h"
#include "base/list.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define READS_MAX 16 /* in a turn */

struct packet {
	struct list link;
	int fd;
	size_t len;
	char data[];
};

struct packets {
	struct loop *loop;
	int fd;
	struct loop_io *io; /* NULL: it has ended */
	const struct packets_ops *ops;
	void *arg;
	size_t max, queue_max, queued;
	struct list queue;
	bool is_paused, is_freed;
	char *in; /* max + 1 bytes */
};

static void drop_queue(struct packets *p)
{
	while (!list_empty(&p->queue)) {
		struct packet *one = container_of(p->queue.next, struct packet, link);

		list_remove(&one->link);
		close_fd(&one->fd);
		free(one);
	}
	p->queued = 0;
}

static void watch(struct packets *p)
{
	if (p->io)
		loop_io_set(p->io, (p->is_paused ? 0U : EPOLLIN) |
		                           (list_empty(&p->queue) ? 0U : EPOLLOUT));
}

static void shut(struct packets *p)
{
	loop_io_removep(&p->io);
	close_fd(&p->fd);
	drop_queue(p);
}

static void end(struct packets *p, int error)
{
	if (!p->io)
		return;
	shut(p);
	p->ops->ended(error, p->arg);
}

static int put(struct packets *p, const void *data, size_t len, int fd)
{
	ssize_t n = fd_send(p->fd, data, len, &fd, fd >= 0);

	if (n == -EAGAIN || n == -EINTR || n == -ENOBUFS)
		return -EAGAIN;
	return n < 0 ? (int)n : 0;
}

static void write_queue(struct packets *p)
{
	while (!list_empty(&p->queue)) {
		struct packet *one = container_of(p->queue.next, struct packet, link);
		int r = put(p, one->data, one->len, one->fd);

		if (r == -EAGAIN)
			return;
		if (r < 0) {
			end(p, r);
			return;
		}
		list_remove(&one->link);
		close_fd(&one->fd);
		free(one);
		p->queued--;
	}
	watch(p);
	if (p->ops->drained)
		p->ops->drained(p->arg);
}

static void read_some(struct packets *p)
{
	for (unsigned i = 0; i < READS_MAX && p->io && !p->is_paused && !p->is_freed; i++) {
		int fds[FD_PASS_MAX];
		size_t n_fds = ARRAY_SIZE(fds);
		ssize_t n = fd_recv(p->fd, p->in, p->max + 1, fds, &n_fds);
		int r;

		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n <= 0 || (size_t)n > p->max || n_fds > 1) {
			while (n_fds > 0)
				(void)close(fds[--n_fds]);
			end(p, n > 0 ? -EPROTO : (int)n);
			return;
		}
		r = p->ops->packet(p->in, (size_t)n, n_fds ? fds[0] : -1, p->arg);
		if (r < 0)
			end(p, r);
	}
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct packets *p = arg;

	(void)loop;
	if (events & EPOLLOUT)
		write_queue(p);
	if (p->io && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		read_some(p);
}

int packets_new(struct loop *loop, int fd, size_t max, size_t queue_max,
                const struct packets_ops *ops, void *arg, struct packets **ret)
{
	struct packets *p = xnew0(struct packets);
	int r;

	*p = (struct packets){.loop = loop,
	                      .fd = fd,
	                      .ops = ops,
	                      .arg = arg,
	                      .max = max,
	                      .queue_max = queue_max,
	                      .in = xcalloc(1, max + 1)};
	list_init(&p->queue);
	r = fd_set_nonblock(fd, true);
	if (r == 0)
		r = loop_io_add(loop, fd, EPOLLIN, on_io, p, &p->io);
	if (r < 0) {
		(void)close(fd);
		free(p->in);
		free(p);
		return r;
	}
	*ret = p;
	return 0;
}

int packets_send(struct packets *p, const void *data, size_t len, int with_fd)
{
	auto_fd int fd = -1;
	struct packet *one;
	int r;

	if (!p->io)
		return -EPIPE;
	r = list_empty(&p->queue) ? put(p, data, len, with_fd) : -EAGAIN;
	if (r != -EAGAIN)
		return r; /* an end is seen by reading, too, where it is told */
	if (p->queued >= p->queue_max)
		return -EAGAIN;
	fd = with_fd >= 0 ? fcntl(with_fd, F_DUPFD_CLOEXEC, 3) : -1;
	if (with_fd >= 0 && fd < 0)
		return -errno;
	one = xcalloc(1, sizeof(*one) + len);
	one->fd = take_fd(&fd);
	one->len = len;
	memcpy(one->data, data, len);
	list_append(&p->queue, &one->link);
	p->queued++;
	watch(p);
	return 0;
}

bool packets_is_idle(const struct packets *p)
{
	return list_empty(&p->queue);
}

void packets_pause(struct packets *p, bool on)
{
	p->is_paused = on;
	watch(p);
}

static void on_free(struct loop *loop, void *arg)
{
	struct packets *p = arg;

	(void)loop;
	free(p->in);
	free(p);
}

void packets_free(struct packets *p)
{
	if (!p)
		return;
	shut(p);
	p->is_freed = true;
	loop_defer(p->loop, on_free, p);
}
