// SPDX-License-Identifier: Apache-2.0
#include "wall/dns_tcp.h"

#include "wall/stub.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define PATIENCE_US  UINT64_C(10000000)
#define LENGTH_BYTES 2
#define QUERY_MAX    512

struct dns_tcp {
	struct door *door;
	int fd;
	struct loop_io *io;
	struct loop_timer *timer;
	struct buf in, out;
	struct question *question;
	bool is_asking; /* stub_ask() has not returned */
	bool is_over;
	loop_fn done;
	void *arg;
};

static void finish(struct dns_tcp *d)
{
	if (d->is_over)
		return;
	d->is_over = true;
	d->done(d->door->all->loop, d->arg);
}

static void watch(struct dns_tcp *d)
{
	loop_io_set(d->io, d->out.len > 0 ? EPOLLOUT : d->question ? 0 : EPOLLIN);
}

static void on_answer(const struct buf *answer, const struct stub_asker *asker)
{
	struct dns_tcp *d = asker->arg;
	const char length[] = {(char)(answer->len >> 8), (char)answer->len};

	d->question = NULL;
	if (buf_append(&d->out, length, sizeof(length)) < 0 ||
	    buf_append(&d->out, answer->data, answer->len) < 0)
		finish(d);
	else if (!d->is_asking)
		watch(d);
}

/* -EPROTO: it is not DNS. */
static int ask(struct dns_tcp *d)
{
	const struct stub_asker asker = {.is_tcp = true, .answer = on_answer, .arg = d};
	size_t len;
	bool is_dropped;

	if (d->in.len < LENGTH_BYTES || d->question || d->out.len > 0)
		return 0;
	len = (size_t)((uint8_t)d->in.data[0] << 8 | (uint8_t)d->in.data[1]);
	if (len > QUERY_MAX)
		return -EPROTO;
	if (d->in.len < LENGTH_BYTES + len)
		return 0;
	d->is_asking = true;
	d->question = stub_ask(d->door, d->in.data + LENGTH_BYTES, len, &asker, &is_dropped);
	d->is_asking = false;
	buf_consume(&d->in, LENGTH_BYTES + len);
	return is_dropped ? -EPROTO : 0;
}

static int read_some(struct dns_tcp *d)
{
	char *room;
	ssize_t n;

	if (buf_reserve(&d->in, buf_room(&d->in), &room) < 0 || buf_room(&d->in) == 0)
		return -E2BIG;
	n = recv(d->fd, room, buf_room(&d->in), 0);
	if (n == 0)
		return -EPIPE;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	buf_commit(&d->in, (size_t)n);
	return 0;
}

static int write_some(struct dns_tcp *d)
{
	ssize_t n = send(d->fd, d->out.data, d->out.len, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	buf_consume(&d->out, (size_t)n);
	return 0;
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct dns_tcp *d = arg;
	int r = 0;

	(void)loop;
	if (d->out.len > 0)
		r = write_some(d);
	else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = d->question ? -EPIPE : read_some(d);
	if (r == 0)
		r = ask(d);
	if (r < 0) {
		finish(d);
		return;
	}
	loop_timer_set_in(d->timer, PATIENCE_US);
	watch(d);
}

static void on_patience_end(struct loop *loop, void *arg)
{
	(void)loop;
	finish(arg);
}

int dns_tcp_new(struct door *door, int fd, loop_fn done, void *arg, struct dns_tcp **ret)
{
	struct dns_tcp *d = xnew0(struct dns_tcp);
	int r;

	*d = (struct dns_tcp){.door = door, .fd = fd, .done = done, .arg = arg};
	buf_init(&d->in, LENGTH_BYTES + QUERY_MAX);
	buf_init(&d->out, LENGTH_BYTES + DNS_TCP_MAX);
	d->timer = loop_timer_new(door->all->loop, on_patience_end, d);
	loop_timer_set_in(d->timer, PATIENCE_US);
	r = loop_io_add(door->all->loop, fd, EPOLLIN, on_io, d, &d->io);
	if (r < 0) {
		dns_tcp_free(d);
		return r;
	}
	*ret = d;
	return 0;
}

static void on_free(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void dns_tcp_free(struct dns_tcp *d)
{
	if (!d)
		return;
	d->is_over = true;
	stub_cancel(d->question);
	loop_io_removep(&d->io);
	loop_timer_free(d->timer);
	(void)close(d->fd);
	buf_done(&d->in);
	buf_done(&d->out);
	loop_defer(d->door->all->loop, on_free, d);
}
