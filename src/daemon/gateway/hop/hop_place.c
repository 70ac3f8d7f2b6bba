// SPDX-License-Identifier: Apache-2.0
/*
 * Creates: which node makes the sandbox (cluster/placement.h decides).
 *
 *	what it is made from is another node's? --> that node (hop_need.h), or here (hop_snapshot.h)
 *	  | no
 *	here, unless this node is clearly worse off --> made
 *	  |                            | refused for want of room or of quota
 *	  v                            v
 *	another node --421--> another, PLACEMENT_TRIES_MAX in all --> here, and what that says
 *
 * The chosen node refuses with 421 whatever it would have refused with: it has done nothing then,
 * and the answer that counts is this node's own. A node that is not reached counts as one that has
 * refused. A connection that ends without an answer does not: the sandbox may be there.
 *
 * A sandbox with a name, or of a group, is made here; with a name alone another node makes it where
 * this one has no room, as the name is the cluster's. An idempotency key that has made a sandbox on
 * another node leads to that node.
 */
#include "api/frame/find.h"
#include "base/clock.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/gateway/hop/hop_need.h"
#include "daemon/gateway/hop/hop_private.h"
#include "daemon/gateway/hop/hop_snapshot.h"
#include "tenant/key.h"

#include <stdio.h>
#include <string.h>

#define SLOT     1000 /* of hop_load.c: a sandbox */
#define SPENT_US SECOND_US

struct place_call {
	struct hops *h;
	struct http_req *req; /* NULL: its client is gone */
	uint32_t tried[PLACEMENT_TRIES_MAX + 1];
	unsigned n_tried;
	struct err refused; /* of this node; ERR_NONE: it was not tried */
};

static const struct placement_need need = {.of = {[PLACEMENT_CPU_MILLI] = SLOT}};

static bool is_placed_here(const struct http_req *req)
{
	return http_hop_from(req) && http_header(req, HOP_PLACED_FIELD);
}

static bool is_full(const struct err *refused)
{
	return refused->code == ERR_CAPACITY || refused->code == ERR_HOST_DISK_FULL;
}

/* This node's part of the quota is used up, and another one may have some of its own left. */
static bool is_out_of_quota(const struct err *refused)
{
	return refused->code == ERR_QUOTA;
}

static bool is_made_elsewhere(const struct err *refused)
{
	return refused->code == ERR_CONFLICT && refused->errnum == NODE_MADE_ELSEWHERE;
}

static bool has_text(const json_t *body, const char *name)
{
	const char *text = json_string_value(json_object_get(body, name));

	return text && text[0];
}

static void on_gone(void *arg)
{
	((struct place_call *)arg)->req = NULL;
}

/* The chosen node has answered. */
static void on_over(void *arg)
{
	struct place_call *c = arg;

	placement_answered(&c->h->view, c->tried[c->n_tried - 1], &need, NULL);
	free(c);
}

void hop_pass(struct hops *h, struct http_req *req, uint32_t node, const struct hop_named *named)
{
	auto_free char *body = http_json(req) ? json_dumps(http_json(req), JSON_COMPACT) : NULL;
	const struct route_facts facts = {.self = h->config.link->word.node,
	                                  .forward = node,
	                                  .is_alive = hop_is_alive,
	                                  .arg = h};
	struct route way = {.tried = {node}, .hops = 1};

	hop_request_start(h, req, &way, &facts, node, named, body ? body : "");
}

/* To the node that has what it needs, and to no other. */
int hop_pass_to(struct hops *h, struct http_req *req, uint32_t node, struct err *err)
{
	int r = hop_check_caller(h, req, node, err);

	if (r < 0)
		return r;
	if (!hop_is_alive(node, h)) {
		hop_refuse_unreachable(err, h, node, "the cluster does not hear of it");
		return -EHOSTUNREACH;
	}
	hop_pass(h, req, node, NULL);
	return 1;
}

/* 0: it is for this node. */
static uint32_t choose(const struct place_call *c)
{
	struct hops *h = c->h;
	struct placement_node self = {.node = h->config.link->word.node,
	                              .has_spare = true,
	                              .has_image = true,
	                              .has_lease = true};
	uint64_t random;
	uint32_t node;

	hop_load_look(h);
	self.figures = h->figures;
	random_bytes(&random, sizeof(random));
	node = placement_choose(&placement_usual, &self, &h->view, &need, c->tried, c->n_tried,
	                        random);
	return node == self.node ? 0 : node;
}

static void on_misdirected(struct http_req *req, void *arg);

static bool try_next(struct place_call *c)
{
	const struct hop_named named = {on_misdirected, on_over, c, /* is_placed= */ true};
	unsigned n_others = c->n_tried - (c->refused.code != ERR_NONE);
	uint32_t node = n_others < PLACEMENT_TRIES_MAX ? choose(c) : 0;

	if (node == 0)
		return false;
	c->tried[c->n_tried++] = node;
	placement_sent(&c->h->view, node, &need);
	log_debug("gateway.placed", "request=%s node=%u", http_request_id(c->req), node);
	hop_pass(c->h, c->req, node, &named);
	return true;
}

/* If no node had any of a project's quota left a moment ago, none is asked. Otherwise each request
 * of a client at its limit would cost every node a request. */
static bool is_spent(const struct hops *h, const char *project_id)
{
	for (size_t i = 0; i < ARRAY_SIZE(h->spent); i++)
		if (h->spent[i].until_us > clock_steady_us() &&
		    strcmp(h->spent[i].project_id, project_id) == 0)
			return true;
	return false;
}

static void note_spent(struct hops *h, const char *project_id)
{
	const uint64_t until_us = clock_steady_us() + SPENT_US;
	size_t row = 0;

	for (size_t i = 0; i < ARRAY_SIZE(h->spent); i++)
		if (h->spent[i].until_us < h->spent[row].until_us)
			row = i;
	h->spent[row].until_us = until_us;
	(void)snprintf(h->spent[row].project_id, sizeof(h->spent[row].project_id), "%s",
	               project_id);
}

/* Here, then: it says what there is to say. The handler runs before this returns. */
static void go_on(struct place_call *c)
{
	struct hops *h = c->h;
	struct http_req *req = c->req;

	if (is_out_of_quota(&c->refused))
		note_spent(h, caller_project(req));
	free(c);
	http_on_done(req, NULL, NULL);
	http_set_told(req, false);
	h->making = req;
	http_go_on(req);
	h->making = NULL;
}

static void on_misdirected(struct http_req *req, void *arg)
{
	struct place_call *c = arg;
	const uint32_t node = c->tried[c->n_tried - 1];

	placement_answered(&c->h->view, node, &need, NULL);
	hop_load_refused(c->h, node);
	http_on_done(req, on_gone, c);
	if (!try_next(c))
		go_on(c);
}

struct key_call {
	struct hops *h;
	struct http_req *req; /* NULL: its client is gone */
	struct err refused;
};

static void on_key_gone(void *arg)
{
	((struct key_call *)arg)->req = NULL;
}

static bool place_refused(struct hops *h, struct http_req *req, const struct err *refused);

/* {holder, node} */
static void on_key(const json_t *answer, const struct err *failure, void *arg)
{
	const struct key_call c = *(struct key_call *)arg;
	const json_int_t node = json_integer_value(json_object_get(answer, "node"));
	struct err err = c.refused;
	int r = -EEXIST;

	free(arg);
	if (!c.req)
		return;
	http_on_done(c.req, NULL, NULL);
	if (!failure && node > 0 && node <= INT32_MAX &&
	    (uint32_t)node != c.h->config.link->word.node)
		r = hop_pass_to(c.h, c.req, (uint32_t)node, &err);
	else if (!failure && node == 0 && is_full(&c.refused) &&
	         place_refused(c.h, c.req, &c.refused))
		return;
	if (r < 0)
		http_reply_err(c.req, &err);
}

/* Whether another node has made it: then that one answers. */
static int ask_by_key(struct hops *h, struct http_req *req, const char *key,
                      const struct err *refused)
{
	auto_json json_t *call = NULL;
	struct key_call *c = xnew0(struct key_call);

	*c = (struct key_call){h, req, *refused};
	http_on_done(req, on_key_gone, c);
	call = json_pack("{ss ss ss}", "call", "once_of", "project_id", caller_project(req), "key",
	                 key);
	node_call(h->config.node, call, on_key, c);
	return 1;
}

/* What it names is here. */
static bool is_bound(const json_t *body)
{
	return has_text(body, "group") || has_text(body, "snapshot") ||
	       has_text(json_object_get(body, "source"), "snapshotId") ||
	       json_object_get(body, "volumes") || json_object_get(body, "volumeMounts") ||
	       json_object_get(body, "mounts");
}

static bool may_be_elsewhere(const struct hops *h, const struct http_req *req, const json_t *body,
                             bool is_refused)
{
	return h->making != req && hop_is_known_elsewhere(h, req) && !is_bound(body) &&
	       !json_object_get(body, "get_or_create") &&
	       (is_refused || (!has_text(body, "name") && !http_header(req, "Idempotency-Key")));
}

/* The words of a node that is full, which is not all there is to say. */
static void tell_all_full(const struct hops *h, const struct err *refused, struct err *err)
{
	if (h->config.link->n_nodes < 2)
		return;
	*err = *refused;
	(void)err_prefix(err, "no other node that this one knows of has room; here");
}

static bool begin(struct place_call *c)
{
	http_on_done(c->req, on_gone, c);
	if (try_next(c))
		return true;
	http_on_done(c->req, NULL, NULL);
	free(c);
	return false;
}

static struct place_call *new_call(struct hops *h, struct http_req *req)
{
	struct place_call *c = xnew0(struct place_call);

	c->h = h;
	c->req = req;
	return c;
}

static bool place_refused(struct hops *h, struct http_req *req, const struct err *refused)
{
	struct place_call *c;

	if (is_out_of_quota(refused) && is_spent(h, caller_project(req)))
		return false;
	if (!may_be_elsewhere(h, req, http_json(req), /* is_refused= */ true))
		return false;
	c = new_call(h, req);
	c->refused = *refused;
	c->tried[c->n_tried++] = h->config.link->word.node;
	return begin(c);
}

/* It was refused here. */
static int again(struct hops *h, struct http_req *req, const struct err *refused, struct err *err)
{
	const char *key = http_header(req, "Idempotency-Key");
	const bool is_taken = key && is_made_elsewhere(refused);

	if (is_taken || (is_full(refused) && key && h->making != req))
		return ask_by_key(h, req, key, refused);
	if (!is_full(refused) && (key || !is_out_of_quota(refused)))
		return 0; /* with a key, another node may have made it: the lease is waited for */
	if (place_refused(h, req, refused))
		return 1;
	if (is_full(refused))
		tell_all_full(h, refused, err);
	return 0;
}

/* No other node is tried: a name that is taken is taken on all of them, and a create from a
 * snapshot of this node fails for a reason that only this node knows. */
static bool may_be_placed_anew(const struct http_req *req, const struct err *refused)
{
	if (hop_snapshot_is_named(req))
		return is_full(refused);
	return refused->code != ERR_CONFLICT || is_made_elsewhere(refused);
}

int hops_place(struct hops *h, struct http_req *req, const struct err *refused, struct err *err)
{
	int r;

	if (!node_is_in(h->config.node) || !cluster_link_is_in(h->config.link))
		return 0;
	if (http_hop_from(req))
		return refused && is_placed_here(req) && may_be_placed_anew(req, refused)
		               ? hop_misdirect(req)
		               : 0;
	if (refused && refused->code == ERR_NOT_FOUND)
		return hop_snapshot_refuse(h, req, err);
	if (refused)
		return again(h, req, refused, err);
	r = hop_need_lead(h, req, err);
	if (r != 0)
		return r;
	return may_be_elsewhere(h, req, http_json(req), /* is_refused= */ false) &&
	       begin(new_call(h, req));
}
