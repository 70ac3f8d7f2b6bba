// SPDX-License-Identifier: Apache-2.0
/*
 * One request to a server inside, over a connection of its own, so no answer can be taken for
 * another's. The relay (http/relay/relay.h) passes it on; here is how the server is reached, what
 * each side is told, and what is counted. Everything is freed in one place, the request's on_done.
 */
#include "http/relay/relay.h"
#include "preview/preview_private.h"

static const char *const faults[RELAY_FAULT_COUNT] = {
	[RELAY_NO_HTTP] = "the server in the sandbox answered with what is no HTTP/1.1",
	[RELAY_UNASKED] = "the server in the sandbox changed the protocol unasked",
	[RELAY_HEAD_ENDLESS] = "the head of the answer has no end",
	[RELAY_BAD_BODY] = "the answer's chunks are malformed",
	[RELAY_NO_ANSWER] = "the server in the sandbox closed the connection without an answer",
	[RELAY_CUT_SHORT] = "the answer was cut short",
	[RELAY_BODY_TOO_FAST] = "the body came faster than the server took it",
	[RELAY_UNWATCHED] = "the connection cannot be watched",
};

struct proxy {
	struct visit visit; /* without its target, which is the caller's */
	struct relay relay;
	struct port_connection *line;
};

static void on_cut(const struct err *err, void *arg)
{
	struct proxy *p = arg;

	if (relay_abandon(&p->relay))
		page_failed(p->visit.req, err);
}

/* The server inside gave no answer or an incomplete one. */
static void on_failed(enum relay_fault fault, void *arg)
{
	struct err err;

	(void)err_set(&err, ERR_GUEST, 0, "%s", faults[fault]);
	on_cut(&err, arg);
}

static int put_request(struct buf *out, void *arg)
{
	const struct proxy *p = arg;

	return heads_request(&p->visit, out);
}

static void put_reply(const struct http_head *head, void *arg)
{
	const struct proxy *p = arg;

	heads_reply(&p->visit, head);
}

static void on_moved(size_t out, size_t in, void *arg)
{
	const struct proxy *p = arg;

	port_connection_count(p->line, out, in);
}

static void on_open(int fd, void *arg)
{
	struct proxy *p = arg;

	relay_use(&p->relay, fd);
}

static void free_proxy(struct loop *loop, void *arg)
{
	struct proxy *p = arg;

	(void)loop;
	relay_done(&p->relay);
	free(p);
}

static void on_done(void *arg)
{
	struct proxy *p = arg;

	port_connection_close(take_ptr(p->line));
	relay_stop(&p->relay);
	loop_defer(http_loop(p->visit.req), free_proxy, p); /* it may be on the stack */
}

int proxy_start(struct visit *v, struct sandbox *s, struct err *err)
{
	static const struct port_connection_ops by_token = {
		.on_open = on_open, .on_cut = on_cut, .is_by_token = true};
	static const struct port_connection_ops admitted = {.on_open = on_open, .on_cut = on_cut};
	static const struct relay_ops relay_ops = {
		.put_request = put_request,
		.put_reply = put_reply,
		.failed = on_failed,
		.moved = on_moved,
		.takes_until_close = true,
	};
	const struct port_connection_ops *ops = v->is_admitted ? &admitted : &by_token;
	struct proxy *p = xnew0(struct proxy);
	int r;

	p->visit = *v;
	relay_init(&p->relay, v->req, &relay_ops, p);
	r = relay_begin(&p->relay);
	p->visit.target = (struct buf)BUF_INIT(0);
	if (r < 0)
		r = err_set(err, ERR_HEADERS_TOO_LARGE, 0, "the head is too long to be passed on");
	else
		r = port_connection_open(s, v->port, ops, p, &p->line, err);
	if (r < 0) {
		free_proxy(NULL, p);
		return r;
	}
	http_on_done(v->req, on_done, p);
	return 0;
}
