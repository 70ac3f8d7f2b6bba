// SPDX-License-Identifier: Apache-2.0
/*
 * Each call is a message with a tag; answers come in any order. A reply with an unknown tag is
 * dropped with its socket. If a message does not fit into the socket, the call fails: its caller
 * tries again later anyway.
 */
#include "outgoing/dialer.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "outgoing/dial_msg.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <uthash.h>

#define PATIENCE_US    (20 * SECOND_US) /* beyond the dialer's own */
#define REPLIES_A_TURN 16

struct call {
	struct dialer *dialer;
	uint64_t tag;
	dial_fn fn;
	void *arg;
	const char *why; /* known without an answer */
	struct loop_timer *timer;
	UT_hash_handle hh;
};

struct dialer {
	struct loop *loop;
	int fd;
	struct loop_io *io;
	uint64_t last_tag;
	uint64_t silent_since_us; /* by the loop's clock; 0: it owes nothing */
	struct call *calls;       /* by tag */
};

static void call_free(struct call *c)
{
	HASH_DEL(c->dialer->calls, c);
	loop_timer_free(c->timer);
	free(c);
}

static void call_end(struct call *c, int fd, const char *why)
{
	dial_fn fn = c->fn;
	void *arg = c->arg;

	call_free(c);
	fn(fd, why, arg);
}

/* Callers are told from the loop. */
static void fail_soon(struct call *c, const char *why)
{
	c->why = why;
	loop_timer_set_in(c->timer, 0);
}

static void detach(struct dialer *d)
{
	loop_io_removep(&d->io);
	if (d->fd >= 0)
		(void)close(take_fd(&d->fd));
	d->silent_since_us = loop_now_us(d->loop);
	for (struct call *c = d->calls; c; c = c->hh.next)
		fail_soon(c, "the dialer is gone");
}

static void on_timer(struct loop *loop, void *arg)
{
	struct call *c = arg;

	(void)loop;
	call_end(c, -1, c->why ? c->why : "connecting took too long");
}

static struct call *find(struct dialer *d, uint64_t tag)
{
	struct call *c = NULL;

	HASH_FIND(hh, d->calls, &tag, sizeof(tag), c);
	return c;
}

static void on_reply(struct dialer *d, struct dial_reply *reply, int fd)
{
	struct call *c = find(d, reply->tag);
	bool is_open = reply->is_open && fd >= 0;

	reply->message[sizeof(reply->message) - 1] = '\0';
	if (!is_open || !c) {
		if (fd >= 0)
			(void)close(fd);
		fd = -1;
	}
	if (c)
		call_end(c, fd, is_open ? NULL : reply->message);
}

/* Returns whether there may be more. */
static bool read_one(struct dialer *d)
{
	struct dial_reply reply;
	int fds[FD_PASS_MAX];
	size_t n_fds = ARRAY_SIZE(fds);
	ssize_t n = fd_recv(d->fd, &reply, sizeof(reply), fds, &n_fds);

	if (n == -EAGAIN || n == -EINTR)
		return false;
	for (size_t i = 1; n >= 0 && i < n_fds; i++)
		(void)close(fds[i]);
	if (n == (ssize_t)sizeof(reply)) {
		d->silent_since_us = 0; /* whatever it says: it lives */
		on_reply(d, &reply, n_fds > 0 ? fds[0] : -1);
		return true;
	}
	log_warn("gateway.dialer_lost", "error=%zd", n);
	detach(d);
	return false;
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	(void)loop;
	(void)events;
	for (int i = 0; i < REPLIES_A_TURN; i++)
		if (!read_one(arg))
			break;
}

struct dialer *dialer_new(struct loop *loop)
{
	struct dialer *d = xnew0(struct dialer);

	d->loop = loop;
	d->fd = -1;
	return d;
}

void dialer_attach(struct dialer *d, int link_fd)
{
	detach(d);
	d->fd = link_fd;
	if (fd_set_nonblock(link_fd, true) < 0 ||
	    loop_io_add(d->loop, link_fd, EPOLLIN, on_io, d, &d->io) < 0)
		detach(d);
	else
		d->silent_since_us = 0;
}

void dialer_free(struct dialer *d)
{
	if (!d)
		return;
	while (d->calls)
		call_free(d->calls);
	detach(d);
	free(d);
}

uint64_t dialer_dial(struct dialer *d, const char *host, uint16_t port, bool is_tenants, dial_fn fn,
                     void *arg)
{
	struct dial_request req = {.tag = ++d->last_tag, .port = port, .is_tenants = is_tenants};
	struct call *c = xnew0(struct call);

	*c = (struct call){.dialer = d, .tag = req.tag, .fn = fn, .arg = arg};
	c->timer = loop_timer_new(d->loop, on_timer, c);
	HASH_ADD(hh, d->calls, tag, sizeof(c->tag), c);
	(void)snprintf(req.host, sizeof(req.host), "%s", host);
	loop_timer_set_in(c->timer, PATIENCE_US);
	if (d->fd < 0)
		fail_soon(c, "the dialer is gone");
	else if (fd_send(d->fd, &req, sizeof(req), NULL, 0) != (ssize_t)sizeof(req))
		fail_soon(c, "the dialer takes no more");
	return c->tag;
}

/* Nobody waits for the answer; it only shows that the dialer is alive. */
void dialer_ping(struct dialer *d)
{
	const struct dial_request req = {.tag = ++d->last_tag};

	if (d->silent_since_us == 0)
		d->silent_since_us = loop_now_us(d->loop);
	if (d->fd >= 0)
		(void)!fd_send(d->fd, &req, sizeof(req), NULL, 0);
}

uint64_t dialer_silent_us(const struct dialer *d)
{
	return d->silent_since_us ? loop_now_us(d->loop) - d->silent_since_us : 0;
}

void dialer_cancel(struct dialer *d, uint64_t tag)
{
	struct call *c = find(d, tag);

	if (c)
		call_free(c);
}
