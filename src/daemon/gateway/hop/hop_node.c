// SPDX-License-Identifier: Apache-2.0
/*
 * What each node has of its own and cannot be merged: its event log, whose entries are numbered and
 * chained, and its readings of the past. A request says by `node` whose it wants, and goes there as
 * it is, streams too. So a client behind a balancer goes on where it was. Without `node` it is the
 * one that was asked, and the reply says which.
 */
#include "api/handlers.h"
#include "api/nodes/node_list.h"
#include "daemon/gateway/hop/hop_private.h"

#include <string.h>

static const http_fn of_one_node[] = {
	list_events, get_events_head, get_event_seals, get_history, list_history_running,
};

static bool is_of_one_node(const struct http_req *req)
{
	for (size_t i = 0; i < ARRAY_SIZE(of_one_node); i++)
		if (http_route(req)->fn == of_one_node[i])
			return true;
	return false;
}

static const struct cluster_node_row *find_row(const struct hops *h, const char *name)
{
	const struct cluster_link *l = h->config.link;

	for (size_t i = 0; i < l->n_nodes; i++)
		if (strcmp(l->nodes[i].name, name) == 0)
			return &l->nodes[i];
	return NULL;
}

static int refuse_unknown(const char *name, struct err *err)
{
	(void)err_set(err, ERR_NOT_FOUND, 0, "no node '%.64s' in the cluster", name);
	return err_hint(err, "`cloche node ls` on any node lists them");
}

static int pass_on(struct hops *h, struct http_req *req, uint32_t node, struct err *err)
{
	const struct route_facts facts = {.self = h->config.link->word.node,
	                                  .forward = node,
	                                  .is_alive = hop_is_alive,
	                                  .arg = h};
	struct route way = {0};
	uint32_t next;
	int r = hop_check_caller(h, req, node, err);

	if (r < 0)
		return r;
	if (route_first(&way, &facts, &next) == ROUTE_HOP) {
		hop_request_start(h, req, &way, &facts, next, NULL, NULL);
		return 1;
	}
	hop_refuse_unreachable(err, h, node, "the cluster does not hear of it");
	return -EHOSTUNREACH;
}

int hop_node_locate(struct hops *h, struct http_req *req, struct err *err)
{
	const char *name = is_of_one_node(req) ? http_query(req, "node") : NULL;
	const struct cluster_node_row *row;

	if (!is_of_one_node(req))
		return 0;
	if (!node_is_in(h->config.node))
		return name ? err_field(err, "node", "this daemon is in no cluster") : 0;
	if (name && !http_hop_from(req)) {
		row = find_row(h, name);
		if (!row)
			return refuse_unknown(name, err);
		if (row->node != h->config.link->word.node)
			return pass_on(h, req, row->node, err);
	}
	node_tell_name(req);
	return 0;
}
