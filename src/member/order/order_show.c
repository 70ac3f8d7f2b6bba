// SPDX-License-Identifier: Apache-2.0
/* What people are shown of a cluster. */
#include "base/clock.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/units.h"
#include "cluster/tag.h"
#include "member/order/order_parts.h"
#include "member/papers/trouble.h"
#include "member/status_socket.h"

#include <inttypes.h>
#include <stdarg.h>
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

#define SKEW_MAX_MS 1000
#define DAY_S       INT64_C(86400)
#define WARN_PART   4          /* of a certificate's term: it should be renewed by then */
#define WARN_S      30 * DAY_S /* of a node that does not tell when its own began */

/* What is wrong with a node, and what to do: one at most, the worst. NULL: nothing. */
static json_t *say(const char *code, const char *hint, const char *fmt, ...) printf_like(3, 4);
static json_t *say(const char *code, const char *hint, const char *fmt, ...)
{
	char message[300];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	return json_pack("{ss ss ss}", "code", code, "message", message, "hint", hint);
}

/* Figures are what another node has told of itself: taken as numbers, or not at all. */
static int64_t figure(const json_t *node, const char *name)
{
	return json_integer_value(json_object_get(json_object_get(node, "figures"), name));
}

static json_t *problem_of(const json_t *node, const char *state, int64_t now_s)
{
	const char *name = json_string_value(json_object_get(node, "name"));
	const int64_t end_s = figure(node, "certificate_end_s"), skew = figure(node, "skew_ms");
	const int64_t begin_s = figure(node, "certificate_begin_s");
	const int64_t seen_s = json_integer_value(json_object_get(node, "seen_ms_ago")) / 1000;

	name = name ? name : "?";
	if (strcmp(state, "lost") == 0)
		return say("node_lost",
		           "start it again and it comes back with nothing: systemctl start cloche",
		           "%s was silent for so long that its names and quota are free", name);
	if (strcmp(state, "fenced") == 0)
		return say("node_fenced",
		           "look there: `systemctl status cloche`, then `cloche cluster status`",
		           "%s is silent, and others have ended its epoch", name);
	if (strcmp(state, "silent") == 0)
		return say("node_silent",
		           "look there: `systemctl status cloche`, then `cloche cluster status`",
		           "%s was not heard of for %" PRId64 " s", name, seen_s);
	if (strcmp(state, "new") == 0)
		return say("node_new",
		           "name the database in its settings, and start it: systemctl restart "
		           "cloche",
		           "%s has joined, and has said no beat yet", name);
	if (end_s > 0 && end_s <= now_s)
		return say("certificate_ended", trouble_hint(TROUBLE_ENDED),
		           "%s: its certificate has ended", name);
	if (end_s > 0 && end_s - now_s < (begin_s > 0 ? (end_s - begin_s) / WARN_PART : WARN_S))
		return say("certificate_ending", trouble_hint(TROUBLE_ENDING),
		           "%s: its certificate ends in %" PRId64 " days", name,
		           (end_s - now_s) / DAY_S);
	if (skew > SKEW_MAX_MS || skew < -SKEW_MAX_MS)
		return say("clock_skew", trouble_hint(TROUBLE_SKEW),
		           "%s: its clock is %" PRId64 " s from PostgreSQL's", name,
		           (skew < 0 ? -skew : skew) / 1000);
	return NULL;
}

static void describe(json_t *node, uint32_t here, json_int_t fence_after_ms, int64_t now_s)
{
	const char *state = state_of(node, fence_after_ms);
	json_t *problem = problem_of(node, state, now_s);

	(void)json_object_set_new(node, "state", json_string(state));
	(void)json_object_set_new(
		node, "is_here",
		json_boolean(json_integer_value(json_object_get(node, "node")) == here));
	if (problem)
		(void)json_object_set_new(node, "problem", problem);
}

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
			describe(one, f.node, (json_int_t)fence_after_ms,
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
	bool has_signer = false;
	const json_t *node;
	struct err err;
	size_t i;

	if (read_directory(o, &directory, &err) < 0)
		return; /* the member says why, better */
	json_array_foreach(json_object_get(directory, "nodes"), i, node)
	{
		has_signer |=
			json_is_true(json_object_get(json_object_get(node, "figures"), "signs"));
		(void)json_object_del(unconst(node), "tags");
	}
	(void)json_object_set(status, "directory", json_object_get(directory, "nodes"));
	if (!has_signer)
		(void)json_object_set_new(
			status, "authority_problem",
			say("authority_missing",
		            "start the node that made the cluster, or put a backup of "
		            "DATA/cluster/authority.key into the data directory of another and "
		            "restart that one",
		            "no node has the authority's key: nobody can join, and no certificate "
		            "is signed"));
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
