// SPDX-License-Identifier: Apache-2.0
/*
 *	writing --> reading --> over
 *
 * A receiver may answer before it has read everything; that answer counts. The whole delivery has
 * one deadline.
 */
#include "hook/delivery.h"

#include "base/units.h"
#include "http/parse.h"
#include "http/tls.h"
#include "http/transport.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define PATIENCE_US (15 * SECOND_US)
#define READ_SIZE   4096
#define READ_MAX    ((size_t)64 * 1024)

struct delivery {
	struct loop *loop;
	struct transport transport;
	struct loop_io *io;
	struct loop_timer *timer;
	struct buf out, in;
	struct http_head head;
	delivery_fn fn;
	void *arg;
};

static void end(struct delivery *d, int status, const char *why)
{
	delivery_fn fn = take_ptr(d->fn);

	loop_io_removep(&d->io);
	loop_timer_set(d->timer, UINT64_MAX);
	if (fn)
		fn(status, why, d->arg); /* may free d: nothing of it is touched after */
}

static void end_broken(struct delivery *d, int r)
{
	char text[120] = "", why[200];

	if (d->transport.ssl)
		tls_last_error(text, sizeof(text));
	(void)snprintf(why, sizeof(why), "the connection broke: %s",
	               *text ? text : strerror(r < 0 ? -r : ECONNRESET));
	end(d, 0, why);
}

/* 1: go on, 0: wait, < 0: it has ended. */
static int write_some(struct delivery *d)
{
	while (d->out.len > 0) {
		ssize_t n = transport_write(&d->transport, d->out.data, d->out.len);

		if (n == -EAGAIN)
			return 0;
		if (n < 0) {
			end_broken(d, (int)n);
			return -1;
		}
		buf_consume(&d->out, (size_t)n);
	}
	return 1;
}

static void read_some(struct delivery *d)
{
	struct err err;
	char *room;
	ssize_t n;
	int r;

	if (buf_reserve(&d->in, READ_SIZE, &room) < 0) {
		end(d, 0, "the answer is too long");
		return;
	}
	n = transport_read(&d->transport, room, READ_SIZE);
	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		end_broken(d, (int)n);
		return;
	}
	buf_commit(&d->in, (size_t)n);
	r = http_head_read(&d->head, &d->in, &err);
	if (r < 0)
		end(d, 0, "the answer is not HTTP");
	else if (r > 0 && d->head.status >= 200)
		end(d, d->head.status, NULL);
	else if (r > 0) /* an interim one, such as 100 */
		end(d, 0, "the answer is an interim one");
}

static void await(struct delivery *d)
{
	uint32_t events = d->transport.read_wants;

	if (d->out.len > 0)
		events |= d->transport.write_wants;
	loop_io_set(d->io, events);
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct delivery *d = arg;

	(void)loop;
	(void)events;
	if (write_some(d) < 0)
		return;
	read_some(d);
	if (d->io) /* it has not ended */
		await(d);
}

static void on_timer(struct loop *loop, void *arg)
{
	(void)loop;
	end(arg, 0, "no answer came in time");
}

int delivery_new(struct loop *loop, int fd, struct tls_context *tls, const char *server_name,
                 struct buf *request, delivery_fn fn, void *arg, struct delivery **ret,
                 struct err *err)
{
	struct delivery *d = xnew0(struct delivery);
	int r = 0;

	*d = (struct delivery){.loop = loop, .fn = fn, .arg = arg, .out = *request};
	buf_init(request, request->cap);
	buf_init(&d->in, READ_MAX);
	http_head_init(&d->head, HTTP_RESPONSE);
	transport_init(&d->transport, fd);
	d->timer = loop_timer_new(loop, on_timer, d);
	loop_timer_set_in(d->timer, PATIENCE_US);
	if (tls)
		r = transport_start_tls(&d->transport, tls, server_name, err);
	if (r == 0) {
		r = loop_io_add(loop, fd, EPOLLIN | EPOLLOUT, on_io, d, &d->io);
		if (r < 0)
			(void)err_set(err, ERR_INTERNAL, -r, "cannot watch the connection");
	}
	if (r < 0) {
		delivery_free(d);
		return r;
	}
	*ret = d;
	return 0;
}

static void free_deferred(struct loop *loop, void *arg)
{
	struct delivery *d = arg;

	(void)loop;
	buf_done(&d->out);
	buf_done(&d->in);
	http_head_done(&d->head);
	free(d);
}

void delivery_free(struct delivery *d)
{
	if (!d)
		return;
	d->fn = NULL;
	loop_io_removep(&d->io);
	loop_timer_free(d->timer);
	d->timer = NULL;
	transport_close(&d->transport);
	loop_defer(d->loop, free_deferred, d);
}
