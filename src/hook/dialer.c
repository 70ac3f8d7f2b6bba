// SPDX-License-Identifier: Apache-2.0
/*
 * Each call is a message with a tag, answered in any order. A reply for a tag that nobody waits for
 * is dropped with its socket. A message that does not fit is a call that failed: its caller tries
 * again later anyway.
 */
#include "hook/dialer.h"

#include "base/fd.h"
#include "hook/dial_msg.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <uthash.h>

#define PATIENCE_US    (20 * UINT64_C(1000000)) /* beyond the dialer's own */
#define REPLIES_A_TURN 16

struct call {
	struct dialer *dialer;
	uint64_t tag;
	dial_fn fn;
	void *arg;
	const char *why; /* known before it was sent */
	struct loop_timer *timer;
	UT_hash_handle hh;
};

struct dialer {
	struct loop *loop;
	int fd;
	struct loop_io *io;
	loop_fn lost;
	void *lost_arg;
	uint64_t last_tag;
	struct call *calls; /* by tag */
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

/* Whether there may be more. */
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
		on_reply(d, &reply, n_fds > 0 ? fds[0] : -1);
		return true;
	}
	loop_io_removep(&d->io);
	d->lost(d->loop, d->lost_arg);
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

int dialer_new(struct loop *loop, int link_fd, loop_fn lost, void *lost_arg, struct dialer **ret,
               struct err *err)
{
	struct dialer *d = xnew0(struct dialer);
	int r;

	*d = (struct dialer){.loop = loop, .fd = link_fd, .lost = lost, .lost_arg = lost_arg};
	r = fd_set_nonblock(link_fd, true);
	if (r == 0)
		r = loop_io_add(loop, link_fd, EPOLLIN, on_io, d, &d->io);
	if (r < 0) {
		dialer_free(d);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the dialer");
	}
	*ret = d;
	return 0;
}

void dialer_free(struct dialer *d)
{
	if (!d)
		return;
	while (d->calls)
		call_free(d->calls);
	loop_io_removep(&d->io);
	(void)close(d->fd);
	free(d);
}

uint64_t dialer_dial(struct dialer *d, const char *host, uint16_t port, dial_fn fn, void *arg)
{
	struct dial_request req = {.tag = ++d->last_tag, .port = port};
	struct call *c = xnew0(struct call);

	*c = (struct call){.dialer = d, .tag = req.tag, .fn = fn, .arg = arg};
	c->timer = loop_timer_new(d->loop, on_timer, c);
	HASH_ADD(hh, d->calls, tag, sizeof(c->tag), c);
	(void)snprintf(req.host, sizeof(req.host), "%s", host);
	if (fd_send(d->fd, &req, sizeof(req), NULL, 0) != (ssize_t)sizeof(req))
		c->why = "the dialer takes no more";
	loop_timer_set_in(c->timer, c->why ? 0 : PATIENCE_US);
	return c->tag;
}

void dialer_cancel(struct dialer *d, uint64_t tag)
{
	struct call *c = find(d, tag);

	if (c)
		call_free(c);
}
