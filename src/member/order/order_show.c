// SPDX-License-Identifier: Apache-2.0
/* What people are shown of a cluster. */
#include "base/clock.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/units.h"
#include "cluster/tag.h"
#include "member/node_report.h"
#include "member/order/order_parts.h"
#include "member/status_socket.h"

#include <stdio.h>
#include <string.h>

/* {number, nodes: […]}, as the function directory gives it, and more about each node. */
static int read_directory(const struct order *o, json_t **ret, struct err *err)
{
	auto_call(PQclearp) PGresult *hello = NULL;
	auto_call(PQclearp) PGresult *rows = NULL;
	struct node_file f = {0};
	struct session s = {0};
	char node[16];
	uint64_t fence_after_ms = 0;
	size_t i;
	json_t *one;
	int r = node_file_read(&f, o->data_dir, err);

	(void)snprintf(node, sizeof(node), "%u", f.node);
	if (r == 0)
		r = order_open_as(o, f.user, f.password, f.cluster_id, &s, &hello, err);
	if (r == 0) {
		rows = session_ask(&s, "SELECT cluster.directory($1::int, $2) AS directory",
		                   (const char *const[]){node, f.secret}, 2, err);
		r = rows ? 0 : -EIO;
	}
	if (r == 0) {
		const char *text = session_text(rows, "directory");

		(void)!parse_u64(session_text(hello, "fence_after_ms"), INT32_MAX, &fence_after_ms);
		r = json_parse(text, strlen(text), ret, err);
	}
	if (r == 0) {
		json_array_foreach(json_object_get(*ret, "nodes"), i, one)
		{
			node_report_add(one, f.node, (int64_t)fence_after_ms,
			                (int64_t)(clock_wall_us() / SECOND_US));
		}
	}
	session_close(&s);
	node_file_done(&f);
	return r;
}

int order_nodes(const struct order *o, json_t **ret, struct err *err)
{
	size_t i;
	json_t *one;
	int r = read_directory(o, ret, err);

	if (r < 0)
		return r;
	json_array_foreach(json_object_get(*ret, "nodes"), i, one)
	{
		(void)json_object_del(one, "tags");
	}
	return 0;
}

/* By tag, for a balancer that leads each call to the node that has made the id. */
int order_map(const struct order *o, json_t **ret, struct err *err)
{
	auto_json json_t *directory = NULL;
	json_t *map = json_array();
	const json_t *one, *tag;
	size_t i, k;
	int r = read_directory(o, &directory, err);

	json_array_foreach(json_object_get(directory, "nodes"), i, one)
	{
		json_array_foreach(json_object_get(one, "tags"), k, tag)
		{
			json_int_t value = json_integer_value(tag);
			char id[ID_SIZE];

			if (value < 0 || value >= TAG_COUNT)
				continue;
			id_make(id, "sb");
			tag_put(id, (uint32_t)value);
			id[strlen("sb_") + TAG_LETTERS] = '\0';
			(void)json_array_append_new(
				map, json_pack("{ss sO sO}", "tag", id + strlen("sb_"), "node",
			                       json_object_get(one, "name"), "address",
			                       json_object_get(one, "address")));
		}
	}
	if (r == 0)
		*ret = json_pack("{sO}", "map", map);
	json_decref(map);
	return r;
}

/* Without a member there is still what the files say. */
static int status_without(const struct order *o, const struct err *why, json_t **ret)
{
	struct node_file f = {0};
	struct err err;
	int r = node_file_read(&f, o->data_dir, &err);

	if (r == 0 && f.invitation)
		r = trouble_set(&err, TROUBLE_NOT_JOINED, "this node has not finished to join");
	*ret = json_pack("{ss s{ss ss ss}}", "state", "none", "problem", "code",
	                 r < 0 ? err.field : "member_missing", "message",
	                 r < 0 ? err.message : why->message, "hint", r < 0 ? err.hint : why->hint);
	if (r == 0) {
		(void)json_object_set_new(*ret, "cluster_id", json_string(f.cluster_id));
		(void)json_object_set_new(*ret, "name", json_string(f.name));
		(void)json_object_set_new(*ret, "node", json_integer(f.node));
	}
	node_file_done(&f);
	return 0;
}

/* Of the whole cluster: its nodes, as far as the database tells of them. */
static void add_nodes(const struct order *o, json_t *status)
{
	auto_json json_t *directory = NULL;
	json_t *problem;
	const json_t *node;
	struct err err;
	size_t i;

	if (read_directory(o, &directory, &err) < 0)
		return; /* the member says why, better */
	json_array_foreach(json_object_get(directory, "nodes"), i, node)
	{
		(void)json_object_del(unconst(node), "tags");
	}
	(void)json_object_set(status, "directory", json_object_get(directory, "nodes"));
	problem = node_report_authority(json_object_get(directory, "nodes"));
	if (problem)
		(void)json_object_set_new(status, "authority_problem", problem);
}

int order_status(const struct order *o, json_t **ret, struct err *err)
{
	int r = status_socket_ask(o->run_dir, STATUS_SOCKET_STATUS, ret, err);

	if (r < 0)
		r = status_without(o, err, ret);
	if (json_object_get(*ret, "cluster_id"))
		add_nodes(o, *ret);
	return r < 0 ? r : 0;
}
