// SPDX-License-Identifier: Apache-2.0
/*
 * The socket is watched for one thing at a time: for room while replies wait, else for requests. So
 * if a gateway does not read the replies, its requests are not read either, and it costs no memory.
 */
#include "broker/wire.h"

#include "base/fd.h"
#include "base/list.h"

#include <string.h>
#include <sys/epoll.h>

#define REQUESTS_A_TURN 32 /* then guests' events get their turn */

struct queued {
	struct list link;
	struct msg_reply reply;
	int fds[MSG_FDS_MAX];
};

struct wire {
	struct loop *loop;
	const struct wire_ops *ops;
	void *arg;
	int fd;
	struct loop_io *io;
	struct list queue;
	bool is_held;
	bool is_gone; /* the end was seen: nothing is read or written any more */
	bool is_dead; /* freed, but maybe still on the stack */
};

static void watch(struct wire *w)
{
	uint32_t events = 0;

	if (!w->io)
		return;
	if (!list_empty(&w->queue))
		events = EPOLLOUT;
	else if (!w->is_held)
		events = EPOLLIN;
	loop_io_set(w->io, events);
}

static void close_all(const int *fds)
{
	for (size_t i = 0; i < MSG_FDS_MAX; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
}

static void drop(struct queued *q)
{
	list_remove(&q->link);
	close_all(q->fds);
	free(q);
}

static void hang_up(struct wire *w)
{
	struct queued *q;

	while ((q = list_first(&w->queue, struct queued, link)))
		drop(q);
	loop_io_removep(&w->io);
	if (w->fd >= 0)
		(void)close(take_fd(&w->fd));
}

static void on_gone(struct loop *loop, void *arg)
{
	struct wire *w = arg;

	(void)loop;
	if (!w->is_dead)
		w->ops->on_gone(w->arg);
}

static void gone(struct wire *w)
{
	if (w->is_gone)
		return;
	w->is_gone = true;
	hang_up(w);
	loop_defer(w->loop, on_gone, w); /* not from inside wire_reply() */
}

/* Returns 0 if it was sent, or dropped because the gateway is gone; -EAGAIN: not now. */
static int transmit(struct wire *w, const struct msg_reply *reply, const int *fds)
{
	int present[MSG_FDS_MAX];
	size_t n_present = 0;
	ssize_t n;

	for (size_t i = 0; i < MSG_FDS_MAX; i++)
		if (fds[i] >= 0)
			present[n_present++] = fds[i];
	n = fd_send(w->fd, reply, sizeof(*reply), present, n_present);
	if (n == -EAGAIN || n == -ENOBUFS || n == -ENOMEM || n == -ETOOMANYREFS)
		return -EAGAIN;
	if (n < 0)
		gone(w);
	return 0;
}

void wire_reply(struct wire *w, const struct msg_reply *reply, const int *fds)
{
	static const int none[MSG_FDS_MAX] = {-1, -1, -1, -1};
	struct queued *q;

	fds = fds ? fds : none;
	if (!w->is_gone && (!list_empty(&w->queue) || transmit(w, reply, fds) == -EAGAIN)) {
		q = xnew0(struct queued);
		q->reply = *reply;
		memcpy(q->fds, fds, sizeof(q->fds));
		list_append(&w->queue, &q->link);
		watch(w);
		return;
	}
	close_all(fds);
}

static void flush(struct wire *w)
{
	struct queued *q;

	while ((q = list_first(&w->queue, struct queued, link))) {
		if (transmit(w, &q->reply, q->fds) == -EAGAIN || w->is_gone)
			return;
		drop(q);
	}
}

/* Returns 1 if there may be more, 0 if there is nothing now. Unexpected fds are closed. */
static int read_one(struct wire *w)
{
	struct msg_request req = {0};
	int fds[FD_PASS_MAX];
	size_t n_fds;
	ssize_t n = fd_recv(w->fd, &req, sizeof(req), fds, &n_fds);

	for (size_t i = 0; i < n_fds; i++)
		(void)close(fds[i]);
	if (n == -EAGAIN)
		return 0;
	if (n == 0 || (n < 0 && n != -EPROTO)) { /* an empty message is an end, too */
		gone(w);
		return 0;
	}
	w->ops->on_request(&req, n, n_fds, w->arg);
	return 1;
}

static void wire_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct wire *w = arg;

	(void)loop;
	(void)events;
	flush(w);
	for (int i = 0; i < REQUESTS_A_TURN; i++) {
		if (w->is_gone || w->is_dead || w->is_held || !list_empty(&w->queue))
			break;
		if (!read_one(w))
			break;
	}
	watch(w);
}

void wire_hold(struct wire *w, bool on)
{
	w->is_held = on;
	watch(w);
}

int wire_new(struct loop *loop, int fd, const struct wire_ops *ops, void *arg, struct wire **ret,
             struct err *err)
{
	struct wire *w = xnew0(struct wire);
	int r = fd_set_nonblock(fd, true);

	*w = (struct wire){.loop = loop, .ops = ops, .arg = arg, .fd = fd};
	list_init(&w->queue);
	if (r == 0)
		r = loop_io_add(loop, fd, EPOLLIN, wire_on_io, w, &w->io);
	if (r < 0) {
		wire_free(w);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the gateway's socket");
	}
	*ret = w;
	return 0;
}

static void free_later(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void wire_free(struct wire *w)
{
	if (!w)
		return;
	w->is_dead = true;
	hang_up(w);
	loop_defer(w->loop, free_later, w);
}
