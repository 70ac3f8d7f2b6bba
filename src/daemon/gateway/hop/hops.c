// SPDX-License-Identifier: Apache-2.0
#include "api/account/login.h"
#include "base/list.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/gateway/hop/hop_heads.h"
#include "daemon/gateway/hop/hop_id.h"
#include "daemon/gateway/hop/hop_need.h"
#include "daemon/gateway/hop/hop_private.h"
#include "sandbox/model/registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOOK_US (5 * SECOND_US)

static void on_timer(struct loop *loop, void *arg)
{
	struct hops *h = arg;

	(void)loop;
	hop_request_look(h);
	loop_timer_set_in(h->timer, LOOK_US);
}

/* This node's tags go into the ids that it makes. */
static void on_nodes(void *arg)
{
	struct hops *h = arg;
	const struct cluster_link *l = h->config.link;
	const struct cluster_node_row *self = cluster_link_node(l, l->word.node);
	size_t n = 0;

	while (self && n < TAGS_PER_NODE && self->tags[n] != CLUSTER_NO_TAG)
		n++;
	if (n > 0)
		id_set_tags(self->tags, n);
	node_set_others(h->config.node, l->n_nodes, self ? self->name : "");
	hop_load_begin(h);
	if (!loop_timer_is_set(h->timer))
		loop_timer_set_in(h->timer, LOOK_US);
}

static void on_arrived(uint32_t from, int fd, void *arg)
{
	const struct hops *h = arg;

	h->config.serve(from, fd, h->config.arg);
}

struct hops *hops_new(const struct hops_config *config)
{
	static const struct cluster_link_ops ops = {.arrived = on_arrived, .nodes = on_nodes};
	struct hops *h = xnew0(struct hops);

	h->config = *config;
	h->requests = xnew0(struct list);
	list_init(h->requests);
	h->gathers = xnew0(struct list);
	list_init(h->gathers);
	hop_streams_init(&h->streams, config->loop);
	h->timer = loop_timer_new(config->loop, on_timer, h);
	hop_load_open(h);
	config->link->ops = &ops;
	config->link->arg = h;
	return h;
}

void hops_free(struct hops *h)
{
	if (!h)
		return;
	h->config.link->ops = NULL;
	hop_gathers_drop(h);
	hop_load_close(h);
	hop_streams_done(&h->streams);
	loop_timer_free(h->timer);
	free(h->requests);
	free(h->gathers);
	free(h);
}

bool hop_is_alive(uint32_t node, void *arg)
{
	const struct hops *h = arg;
	const struct cluster_node_row *row = cluster_link_node(h->config.link, node);

	return row && row->is_alive;
}

void hop_refuse_unreachable(struct err *err, const struct hops *h, uint32_t node, const char *why)
{
	const struct cluster_node_row *row = cluster_link_node(h->config.link, node);

	(void)err_set(err, ERR_NODE_UNREACHABLE, 0, "the node '%s', which has it, %s: %s",
	              row ? row->name : "?", row && !row->is_alive ? "is silent" : "is not reached",
	              why);
	(void)err_hint(err, "try again; `cloche node ls` shows which nodes are up");
}

static int route(struct hops *h, struct http_req *req, const struct hop_id *id, struct err *err)
{
	const struct cluster_link *l = h->config.link;
	const struct sandbox *own = fleet_find_id(h->config.fleet, id->text);
	const uint32_t forward = own ? 0 : hop_moved_find(h, id->text);
	const uint32_t self = l->word.node,
		       tagged = tag_map_find(&l->tags, (uint32_t)tag_of(id->text));
	const struct route_facts facts = {
		.self = self,
		.hop_from = http_hop_from(req),
		.tagged = tagged,
		.is_own = own || ((tagged == self || tagged == 0) && !forward),
		.forward = forward,
		.is_alive = hop_is_alive,
		.arg = h,
	};
	struct route way = {0};
	uint32_t node = 0;

	if (own && sandbox_check_fence(own, err) < 0)
		return -EAGAIN;
	switch (route_first(&way, &facts, &node)) {
	case ROUTE_HERE:
	case ROUTE_NOT_FOUND: /* the handler says so in its own wire's words */
	case ROUTE_LOOP:      /* no member lets its own node in: it cannot come back */
	case ROUTE_REDIRECT:  /* not asked for */
		return 0;
	case ROUTE_HOP:
		if (!id->is_by_name && login_is_by_cookie(req))
			return hop_refuse_caller(h, node, err);
		hop_request_start(h, req, &way, &facts, node, NULL, NULL);
		return 1;
	case ROUTE_ASK:
		if (hop_directory_ask(h, req, id->text, &way, &facts))
			return 1;
		break;
	case ROUTE_MOVED:
		return hop_moved_tell(req, node);
	case ROUTE_UNREACHABLE:
		break;
	}
	hop_refuse_unreachable(err, h, tagged, "the cluster's database has not heard of it");
	return -EHOSTUNREACH;
}

int hops_lead(struct hops *h, struct http_req *req, struct err *err)
{
	if (!node_is_in(h->config.node) || !cluster_link_is_in(h->config.link))
		return 0;
	return hop_need_lead(h, req, err);
}

/*
 * A gateway that has just started has not heard yet which nodes there are. What it does not have
 * itself may be another node's, so it is not 404 before the member's first word.
 */
static int check_unheard(const struct hops *h, const char *id, struct err *err)
{
	if (strncmp(id, "sb_", 3) != 0 || fleet_find_id(h->config.fleet, id))
		return 0;
	return node_refuse(err, "this node does not know the other nodes yet, one of which may "
	                        "have this sandbox");
}

bool hop_find_id(const struct hops *h, const struct http_req *req, struct hop_id *ret)
{
	const struct http_head *head = http_req_head(req);

	return hop_id_find(
		&(struct hop_asked){.target = head->target,
	                            .host = http_head_find(head, "Host"),
	                            .sandbox_field = http_head_find(head, "E2b-Sandbox-Id"),
	                            .session_field = http_head_find(head, "Mcp-Session-Id"),
	                            .preview_domain = h->config.preview_domain},
		ret);
}

int hops_divert(struct hops *h, struct http_req *req, struct err *err)
{
	const bool is_heard = cluster_link_is_in(h->config.link);
	struct hop_id id;

	if (!is_heard && !node_is_in(h->config.node))
		return 0;
	if (!hop_find_id(h, req, &id))
		return 0;
	/* Who passes it on answers for its name: the owner does not ask again. */
	if (!id.is_by_name && http_check_host(req, err) < 0)
		return 0;
	return is_heard ? route(h, req, &id, err) : check_unheard(h, id.text, err);
}
