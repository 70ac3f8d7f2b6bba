// SPDX-License-Identifier: Apache-2.0
/*
 * One request to a peer: which node, over which stream, and what is said if it gives no answer. The
 * relay (http/relay/relay.h) does the rest.
 *
 *	stream asked for --> relayed --> end
 *	     ^                  |
 *	     +-- a kept stream was dead, and nothing is lost by sending it again
 *
 * The body of a request that names a sandbox by its name follows when the peer asks for it: a peer
 * that does not have it says 421, and another is asked.
 */
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/gateway/hop/hop_heads.h"
#include "daemon/gateway/hop/hop_id.h"
#include "daemon/gateway/hop/hop_private.h"
#include "http/relay/relay.h"

#include <string.h>
#include <unistd.h>

#define STALL_US (60 * SECOND_US) /* for a peer to take what waits for it */

static const char *const faults[RELAY_FAULT_COUNT] = {
	[RELAY_NO_HTTP] = "it answered with what is no answer of a cloche",
	[RELAY_UNASKED] = "it answered with what is no answer of a cloche",
	[RELAY_HEAD_ENDLESS] = "the head of its answer has no end",
	[RELAY_BAD_BODY] = "its answer is malformed",
	[RELAY_NO_ANSWER] = "the connection ended without an answer, and it may have been done",
	[RELAY_CUT_SHORT] = "the answer was cut short",
	[RELAY_BODY_TOO_FAST] = "the body came faster than it was taken",
	[RELAY_UNWATCHED] = "its stream cannot be watched",
};

struct hop_request {
	struct list link;
	struct hops *hops;
	struct http_req *req;
	struct relay relay;
	struct route route;
	struct route_facts facts;
	uint32_t node;
	struct hop_named named; /* zero: it is by an id */
	const char *body;       /* that has been read, while it is written */
	bool is_kept;           /* the stream was used before */
	bool is_opening;        /* the member was asked for a stream */
};

static void on_done(void *arg);
static void on_stream(const struct cluster_reply *reply, void *arg);

static void fail(struct hop_request *p, const char *why)
{
	struct err err;

	if (p->relay.is_over)
		return;
	log_info("gateway.hop_failed", "request=%s node=%u why='%s'", http_request_id(p->req),
	         p->node, why);
	if (!relay_abandon(&p->relay))
		return;
	hop_refuse_unreachable(&err, p->hops, p->node, why);
	http_reply_err(p->req, &err);
}

static void on_failed(enum relay_fault fault, void *arg)
{
	fail(arg, faults[fault]);
}

static int put_request(struct buf *out, void *arg)
{
	const struct hop_request *p = arg;

	const struct hop_body body = {.is_held = p->relay.holds_body,
	                              .is_placed = p->named.is_placed,
	                              .data = p->body,
	                              .len = p->body ? strlen(p->body) : 0};

	return hop_heads_request(p->req, &body, out);
}

static void put_reply(const struct http_head *head, void *arg)
{
	const struct hop_request *p = arg;

	http_reply_at_once(p->req); /* the owner's was held */
	hop_heads_reply(p->req, head);
}

/* The request is its caller's again. */
static void give_back(struct hop_request *p)
{
	struct http_req *req = p->req;
	const struct hop_named named = p->named;

	p->named.over = NULL;
	http_on_drain(req, NULL, NULL);
	http_on_done(req, NULL, NULL);
	on_done(p);
	named.misdirected(req, named.arg);
}

/* The peer says which node has it. A body may be lost: its client sends it again, and that goes
 * straight there. */
static bool pass_elsewhere(struct hop_request *p, uint32_t node)
{
	const bool has_body = http_req_head(p->req)->framing != HTTP_NO_BODY;
	struct http_req *req = p->req;
	struct hops *h = p->hops;
	struct route_facts facts;
	struct route route;
	struct hop_id id;

	if (hop_find_id(h, req, &id))
		hop_moved_note(h, id.text, node);
	if (has_body ||
	    route_answered(&p->route, &p->facts, ROUTE_ANSWER_MOVED, node, &node) != ROUTE_HOP) {
		fail(p, "it was taken over by another node");
		return true;
	}
	route = p->route;
	facts = p->facts;
	http_on_drain(req, NULL, NULL);
	http_on_done(req, NULL, NULL);
	on_done(p);
	hop_request_start(h, req, &route, &facts, node, NULL, NULL);
	return true;
}

/* The peer does not have it. */
static bool on_turned_away(const struct http_head *head, void *arg)
{
	struct hop_request *p = arg;

	if (!p->named.misdirected && hop_moved_read(head) != 0)
		return pass_elsewhere(p, hop_moved_read(head));
	if (!p->named.misdirected || head->status != 421 || !http_head_find(head, HOP_MOVED_FIELD))
		return false;
	give_back(p);
	return true;
}

static void on_keep(int fd, void *arg)
{
	const struct hop_request *p = arg;

	hop_streams_keep(&p->hops->streams, p->node, fd);
}

static void ask_stream(struct hop_request *p)
{
	p->is_kept = false;
	p->is_opening = true;
	cluster_link_open(p->hops->config.link, p->node, on_stream, p);
}

static bool is_idempotent(enum http_method method)
{
	return method != HTTP_POST && method != HTTP_PATCH && method != HTTP_METHOD_COUNT;
}

/* A kept stream was found dead. The peer may have seen the request, or not. */
static bool on_again(void *arg)
{
	struct hop_request *p = arg;

	if (!p->is_kept || !is_idempotent(http_req_method(p->req)) || relay_begin(&p->relay) < 0)
		return false;
	ask_stream(p);
	return true;
}

static const struct relay_ops relay_ops = {
	.put_request = put_request,
	.put_reply = put_reply,
	.failed = on_failed,
	.again = on_again,
	.turned_away = on_turned_away,
	.keep = on_keep,
};

static void start(struct hop_request *p)
{
	int fd = hop_streams_take(&p->hops->streams, p->node);

	if (fd >= 0) {
		p->is_kept = true;
		relay_use(&p->relay, fd);
	} else {
		ask_stream(p);
	}
}

/* Nothing of the request was sent. */
static void on_unreached(struct hop_request *p, const char *why)
{
	uint32_t node = 0;

	if (p->named.is_placed) { /* another node may make it */
		give_back(p);
		return;
	}
	if (route_answered(&p->route, &p->facts, ROUTE_ANSWER_FAILED, 0, &node) == ROUTE_HOP) {
		p->node = node;
		start(p);
	} else {
		fail(p, why);
	}
}

static void on_stream(const struct cluster_reply *reply, void *arg)
{
	struct hop_request *p = arg;

	p->is_opening = false;
	if (p->relay.is_over) {
		if (reply->fd >= 0)
			(void)close(reply->fd);
	} else if (reply->error) {
		on_unreached(p, reply->message);
	} else {
		relay_use(&p->relay, reply->fd);
	}
}

static void free_request(struct loop *loop, void *arg)
{
	struct hop_request *p = arg;

	(void)loop;
	relay_done(&p->relay);
	free(p);
}

static void on_done(void *arg)
{
	struct hop_request *p = arg;

	list_remove(&p->link);
	if (p->is_opening)
		cluster_link_forget(p->hops->config.link, p);
	relay_stop(&p->relay);
	if (p->named.over)
		p->named.over(p->named.arg);
	loop_defer(http_loop(p->req), free_request, p); /* it may be on the stack */
}

void hop_request_start(struct hops *h, struct http_req *req, const struct route *route,
                       const struct route_facts *facts, uint32_t node,
                       const struct hop_named *named, const char *body)
{
	struct hop_request *p = xnew0(struct hop_request);
	struct err err;
	int r;

	*p = (struct hop_request){
		.hops = h, .req = req, .route = *route, .facts = *facts, .node = node};
	list_append(h->requests, &p->link);
	relay_init(&p->relay, req, &relay_ops, p);
	p->body = body;
	if (named)
		p->named = *named;
	if (body)
		relay_body_is_read(&p->relay, strlen(body));
	else if (named && http_req_head(req)->framing != HTTP_NO_BODY)
		relay_hold_body(&p->relay);
	http_set_told(req, true); /* by the owner */
	http_body_may_rest(req);  /* the owner has its own deadline */
	http_on_done(req, on_done, p);
	r = relay_begin(&p->relay);
	p->body = NULL;
	if (r == 0) {
		start(p);
	} else if (relay_abandon(&p->relay)) {
		(void)err_set(&err, ERR_HEADERS_TOO_LARGE, 0,
		              "the head is too long to be passed on");
		http_reply_err(req, &err);
	}
}

void hop_request_look(struct hops *h)
{
	list_for_each (h->requests, struct hop_request, p, link)
		if (relay_is_stuck(&p->relay, STALL_US))
			fail(p, "it does not take what is sent to it");
}
