// SPDX-License-Identifier: Apache-2.0
/*
 * The nodes of the cluster as their beats tell of them, for people. The gateway asks, and is
 * answered at once from what was read last: nobody who asks makes a query. The directory is read
 * behind a beat's answer, by follow_up.c: every few seconds in a cluster of up to NODES_USUAL nodes
 * (a thousand nodes that read a thousand rows each would cost more than the beats), and behind each
 * beat while somebody looks.
 *
 * What the rows say is as old as the reading. This node's own row is as of now.
 */
#include "base/clock.h"
#include "base/units.h"
#include "member/member_private.h"
#include "member/node_report.h"
#include "member/objects/objects_check.h"

#include <string.h>

#define NODES_USUAL 64
#define READ_US     (5 * SECOND_US)
#define LOOK_US     (30 * SECOND_US) /* that somebody looks, since the last question */
#define PAGE_ROWS   32               /* that fit in one message */
#define VERSION_MAX 40
#define FIGURE_MAX  (INT64_C(1) << 52)

bool heard_nodes_are_due(const struct member *m)
{
	const uint64_t now_us = clock_steady_us();

	if (m->heard_asked_us && now_us < m->heard_asked_us + LOOK_US)
		return true;
	return m->directory.n <= NODES_USUAL && now_us >= m->directory_us + READ_US;
}

static void put_figure(json_t *to, const char *name, const json_t *value)
{
	const json_int_t n = json_integer_value(value);

	if (json_is_integer(value) && n >= 0 && n <= FIGURE_MAX)
		(void)json_object_set_new(to, name, json_integer(n));
}

/* What a gateway has told its member (daemon/gateway/hop/hop_load.c). Other nodes are not believed:
 * what is no figure is left out. */
static json_t *load_of(const json_t *told)
{
	static const char *const names[] = {"sandboxes", "sandboxes_max", "spares", "cpu_milli",
	                                    "cpus"};
	const json_t *capacity = json_object_get(told, "capacity"),
		     *committed = json_object_get(told, "committed");
	json_t *load = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		put_figure(load, names[i], json_object_get(told, names[i]));
	put_figure(load, "memory_mib", json_array_get(committed, 1));
	put_figure(load, "memory_max_mib", json_array_get(capacity, 1));
	put_figure(load, "disk_mib", json_array_get(committed, 2));
	put_figure(load, "disk_max_mib", json_array_get(capacity, 2));
	return load;
}

static json_t *version_of(const json_t *figures)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789.+-~";
	const char *version = json_string_value(json_object_get(figures, "version"));

	return version && strlen(version) <= VERSION_MAX &&
	                       strspn(version, letters) == strlen(version)
	               ? json_string(version)
	               : json_null();
}

/* The names of all that are here were checked (directory_set()). */
void heard_nodes_set(struct member *m, const json_t *directory)
{
	static const char *const kept[] = {"node",    "name",        "address", "is_cordoned",
	                                   "is_here", "seen_ms_ago", "state",   "problem"};
	const json_t *nodes = json_object_get(directory, "nodes");
	json_t *rows = json_array(), *node;
	size_t i;

	json_array_foreach(nodes, i, node)
	{
		const json_t *figures = json_object_get(node, "figures");
		json_t *row;

		if (!json_is_string(json_object_get(node, "name")))
			continue;
		node_report_add(node, m->config.node->node,
		                (int64_t)(m->rules.fence_after_us / 1000),
		                (int64_t)(clock_wall_us() / SECOND_US));
		row = json_pack("{so so}", "load", load_of(json_object_get(figures, "load")),
		                "version", version_of(figures));
		for (size_t k = 0; k < ARRAY_SIZE(kept); k++)
			(void)json_object_set(row, kept[k], json_object_get(node, kept[k]));
		(void)json_array_append_new(rows, row);
	}
	json_decref(m->heard);
	json_decref(m->heard_problem);
	m->heard = rows;
	m->heard_problem = node_report_authority(nodes);
	m->heard_us = clock_wall_us();
}

static const char *own_state(const struct member *m, enum fence_state state)
{
	if (m->trouble == TROUBLE_REMOVED)
		return "removed";
	switch (state) {
	case FENCE_HELD:
		return "up";
	case FENCE_LOST:
		return "lost";
	case FENCE_FENCED:
		return "fenced";
	case FENCE_OUT:
		break;
	}
	return m->fence.was_in ? "fenced" : "new";
}

/* heard: the row as it was read; NULL: there is none. */
static json_t *own_row(const struct member *m, const json_t *heard, enum fence_state state,
                       const json_t *problems)
{
	const struct node_file *f = m->config.node;
	json_t *row = heard ? json_copy(unconst(heard))
	                    : json_pack("{sI ss ss}", "node", (json_int_t)f->node, "name", f->name,
	                                "address", f->address);

	(void)json_object_set_new(row, "is_here", json_true());
	(void)json_object_set_new(row, "state", json_string(own_state(m, state)));
	(void)json_object_set_new(row, "version", json_string(CLOCHE_VERSION));
	(void)json_object_set_new(row, "load", load_of(m->load));
	if (m->answered_us)
		(void)json_object_set_new(
			row, "seen_ms_ago",
			json_integer((json_int_t)((clock_steady_us() - m->answered_us) / 1000)));
	(void)json_object_del(row, "problem");
	if (json_array_size(problems) > 0)
		(void)json_object_set(row, "problem", json_array_get(problems, 0));
	return row;
}

static int64_t left_ms(uint64_t until_us)
{
	const uint64_t now_us = clock_steady_us();

	return until_us > now_us ? (int64_t)((until_us - now_us) / 1000) : 0;
}

static void add_problem(json_t *problems, const json_t *status)
{
	json_t *problem = json_object_get(status, "problem");

	if (problem)
		(void)json_array_append(problems, problem);
}

/* Of this node, of its store, and of the cluster as a whole. */
static json_t *problems_of(const struct member *m, const json_t *own)
{
	json_t *all = json_array();

	if (m->trouble != TROUBLE_STARTING)
		(void)json_array_extend(all, unconst(own));
	if (m->config.check) {
		auto_json json_t *store = objects_check_status(m->config.check);
		auto_json json_t *collection = member_collect_status(m);

		add_problem(all, store);
		add_problem(all, collection);
	}
	if (m->heard_problem)
		(void)json_array_append(all, m->heard_problem);
	return all;
}

static json_t *cluster_of(const struct member *m, enum fence_state state, const json_t *own)
{
	json_t *all = json_pack("{ss sI sI so}", "state", member_state_name(state),
	                        "fence_after_ms", (json_int_t)(m->rules.fence_after_us / 1000),
	                        "lost_after_ms", (json_int_t)(m->rules.lost_after_us / 1000),
	                        "problems", problems_of(m, own));

	if (m->config.node)
		(void)json_object_set_new(all, "id", json_string(m->config.node->cluster_id));
	if (state == FENCE_HELD)
		(void)json_object_set_new(
			all, "right_ms",
			json_integer(left_ms(m->fence.right_us + m->rules.fence_after_us)));
	if (m->fence.was_in)
		(void)json_object_set_new(
			all, "lost_in_ms",
			json_integer(left_ms(fence_lost_us(&m->fence, &m->rules))));
	return all;
}

/* {after}: rows behind the node of that number. */
void heard_nodes_take(struct member *m, uint32_t seq, const json_t *call)
{
	const json_int_t after = json_integer_value(json_object_get(call, "after"));
	const json_int_t self = m->config.node ? (json_int_t)m->config.node->node : 0;
	const enum fence_state state = fence_state(&m->fence, &m->rules, clock_steady_us());
	auto_json json_t *own = member_problems(m);
	auto_json json_t *answer = NULL;
	json_t *rows = json_array(), *row;
	bool has_self = self == 0, has_more = false;
	size_t i;

	m->heard_asked_us = clock_steady_us();
	json_array_foreach(m->heard, i, row)
	{
		const json_int_t node = json_integer_value(json_object_get(row, "node"));

		has_self |= node == self;
		has_more = json_array_size(rows) == PAGE_ROWS;
		if (has_more)
			break;
		if (node <= after)
			continue;
		(void)json_array_append_new(rows, node == self ? own_row(m, row, state, own)
		                                               : json_incref(row));
	}
	if (!has_self && !has_more) /* removed, or the database was not reached yet */
		(void)json_array_append_new(rows, own_row(m, NULL, state, own));
	answer = json_pack("{so so sb}", "cluster", cluster_of(m, state, own), "nodes", rows,
	                   "has_more", has_more);
	if (m->heard)
		(void)json_object_set_new(answer, "as_of_us",
		                          json_integer((json_int_t)m->heard_us));
	gateway_link_answer(m->link, seq, answer);
}
