// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/hop/hop_snapshot.h"

#include "base/json/json.h"

struct snapshot_call {
	struct hops *h;
};

static const char *find_id(const struct http_req *req)
{
	static const char *const fields[] = {"snapshot", "template", "templateID"};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *id = json_string_value(json_object_get(http_json(req), fields[i]));

		if (id && id_is_valid(id, "sn"))
			return id;
	}
	return NULL;
}

bool hop_snapshot_is_named(const struct http_req *req)
{
	return find_id(req) != NULL;
}

static void on_over(void *arg)
{
	free(arg);
}

static void on_misdirected(struct http_req *req, void *arg)
{
	const struct snapshot_call c = *(struct snapshot_call *)arg;

	free(arg);
	http_set_told(req, false);
	c.h->making = req;
	http_go_on(req);
	c.h->making = NULL;
}

int hop_snapshot_lead(struct hops *h, struct http_req *req, uint32_t node, struct err *err)
{
	const struct cluster_node_row *row = cluster_link_node(h->config.link, node);
	struct hop_named named = {
		.misdirected = on_misdirected, .over = on_over, .is_placed = true};
	struct snapshot_call *c;
	int r;

	if (!row || !row->is_alive || row->is_cordoned)
		return 0;
	r = hop_check_caller(h, req, node, err);
	if (r < 0)
		return r;
	c = xnew0(struct snapshot_call);
	c->h = h;
	named.arg = c;
	hop_pass(h, req, node, &named);
	return 1;
}

int hop_snapshot_refuse(const struct hops *h, const struct http_req *req, struct err *err)
{
	const struct cluster_link *l = h->config.link;
	const char *id = find_id(req);
	const uint32_t node = id ? tag_map_find(&l->tags, (uint32_t)tag_of(id)) : 0;

	if (node == 0 || node == l->word.node)
		return 0;
	hop_refuse_unreachable(err, h, node,
	                       "the snapshot is there alone, as it is not durable, or that node "
	                       "takes no creates");
	return -EHOSTUNREACH;
}
