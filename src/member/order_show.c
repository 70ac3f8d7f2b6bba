// SPDX-License-Identifier: Apache-2.0
/* What people are shown of a cluster. */
#include "base/parse.h"
#include "member/order_parts.h"
#include "member/status_socket.h"

#include <stdio.h>
#include <string.h>

/* By what the database has: who was not heard of for longer than a fence takes is silent, whoever's
 * clock it is. */
static const char *state_of(const json_t *node, json_int_t fence_after_ms)
{
	const json_t *seen = json_object_get(node, "seen_ms_ago");

	if (json_is_true(json_object_get(node, "is_lost")))
		return "lost";
	if (json_is_true(json_object_get(node, "is_claimed")))
		return "fenced";
	if (!json_is_integer(seen))
		return "new";
	return json_integer_value(seen) > fence_after_ms ? "silent" : "up";
}

int order_nodes(const struct order *o, json_t **ret, struct err *err)
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
			(void)json_object_set_new(
				one, "state",
				json_string(state_of(one, (json_int_t)fence_after_ms)));
			(void)json_object_set_new(
				one, "is_here",
				json_boolean(json_integer_value(json_object_get(one, "node")) ==
			                     (json_int_t)f.node));
			(void)json_object_del(one, "tags");
		}
	}
	session_close(&s);
	node_file_done(&f);
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

int order_status(const struct order *o, json_t **ret, struct err *err)
{
	int r = status_socket_ask(o->run_dir, STATUS_SOCKET_STATUS, ret, err);

	return r < 0 ? status_without(o, err, ret) : 0;
}
