// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/hop/hop_streams.h"

#include "base/fd.h"
#include "base/list.h"
#include "base/units.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define KEPT_US (20 * SECOND_US) /* well below what the peer's server keeps an idle one for */

struct kept_stream {
	struct list link;
	uint32_t node;
	int fd;
	uint64_t until_us;
	struct loop_io *io;
};

static int release(struct kept_stream *k)
{
	int fd = k->fd;

	list_remove(&k->link);
	loop_io_removep(&k->io);
	free(k);
	return fd;
}

static void on_unasked(struct loop *loop, uint32_t events, void *arg)
{
	(void)loop;
	(void)events;
	(void)close(release(arg));
}

static void on_timer(struct loop *loop, void *arg)
{
	struct hop_streams *s = arg;

	list_for_each (s->kept, struct kept_stream, k, link)
		if (k->until_us <= loop_now_us(loop))
			(void)close(release(k));
	if (!list_empty(s->kept))
		loop_timer_set_in(s->timer, KEPT_US / 4);
}

void hop_streams_init(struct hop_streams *s, struct loop *loop)
{
	*s = (struct hop_streams){.loop = loop, .kept = xnew0(struct list)};
	list_init(s->kept);
	s->timer = loop_timer_new(loop, on_timer, s);
}

void hop_streams_done(struct hop_streams *s)
{
	list_for_each (s->kept, struct kept_stream, k, link)
		(void)close(release(k));
	loop_timer_free(s->timer);
	free(s->kept);
}

int hop_streams_take(struct hop_streams *s, uint32_t node)
{
	struct kept_stream *found = NULL;
	char byte;
	int fd;

	/* The one that was used last: the others may end. */
	list_for_each (s->kept, struct kept_stream, k, link)
		if (k->node == node)
			found = k;
	if (!found)
		return -1;
	fd = release(found);
	if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
		return fd;
	(void)close(fd);
	return hop_streams_take(s, node);
}

void hop_streams_keep(struct hop_streams *s, uint32_t node, int fd)
{
	struct kept_stream *new_one;
	size_t n = 0;

	list_for_each (s->kept, struct kept_stream, k, link)
		n += k->node == node;
	if (n >= HOP_STREAMS_KEPT) {
		(void)close(fd);
		return;
	}
	new_one = xnew0(struct kept_stream);
	*new_one = (struct kept_stream){
		.node = node, .fd = fd, .until_us = loop_now_us(s->loop) + KEPT_US};
	if (loop_io_add(s->loop, fd, EPOLLIN | EPOLLRDHUP, on_unasked, new_one, &new_one->io) < 0) {
		(void)close(fd);
		free(new_one);
		return;
	}
	list_append(s->kept, &new_one->link);
	if (!loop_timer_is_set(s->timer))
		loop_timer_set_in(s->timer, KEPT_US / 4);
}
