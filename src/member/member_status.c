// SPDX-License-Identifier: Apache-2.0
/* The member's state as JSON, for `cloche cluster status` and the daemon's health. */
#include "base/clock.h"
#include "base/units.h"
#include "member/member_private.h"

#include <inttypes.h>
#include <stdio.h>

#define SKEW_MAX_US (int64_t) SECOND_US

static json_t *say_problem(enum trouble trouble, const char *message)
{
	return json_pack("{ss ss ss}", "code", trouble_code(trouble), "message", message, "hint",
	                 trouble_hint(trouble));
}

json_t *member_problems(const struct member *m)
{
	json_t *all = json_array();
	char text[MESSAGE_SIZE];
	enum trouble certificate = own_certificate_problem(m, text);

	if (m->trouble != TROUBLE_NONE)
		(void)json_array_append_new(all, say_problem(m->trouble, m->message));
	if (certificate != TROUBLE_NONE)
		(void)json_array_append_new(all, say_problem(certificate, text));
	if (m->skew_us > SKEW_MAX_US || m->skew_us < -SKEW_MAX_US) {
		(void)snprintf(text, sizeof(text),
		               "this node's clock is %" PRId64
		               " s %s PostgreSQL's: no lease depends on it, but times in logs and "
		               "events do",
		               (m->skew_us < 0 ? -m->skew_us : m->skew_us) / (int64_t)SECOND_US,
		               m->skew_us < 0 ? "ahead of" : "behind");
		(void)json_array_append_new(all, say_problem(TROUBLE_SKEW, text));
	}
	return all;
}

json_t *member_collect_status(const struct member *m)
{
	return collect_status(m->collect);
}

json_t *member_status(const struct member *m)
{
	auto_json json_t *problems = member_problems(m);
	const struct node_file *node = m->config.node;
	uint64_t now_us = clock_steady_us();
	json_t *all = json_pack(
		"{ss sI sb sI sI sI sI sI so sb sI}", "state", member_state_name(m->state),
		"since_ms", (json_int_t)((now_us - m->state_since_us) / 1000), "connected",
		m->beats && database_is_up(m->beats), "epoch", (json_int_t)m->fence.epoch, "beats",
		(json_int_t)m->fence.number, "fence_after_ms",
		(json_int_t)(m->rules.fence_after_us / 1000), "lost_after_ms",
		(json_int_t)(m->rules.lost_after_us / 1000), "nodes", (json_int_t)m->directory.n,
		"watching", node_watch_status(m), "signs", m->config.authority->key != NULL,
		"certificate_end_s", (json_int_t)m->own.term.end_s);

	if (m->peers)
		(void)json_object_set_new(all, "streams", peers_status(m->peers));

	if (node) {
		(void)json_object_set_new(all, "cluster_id", json_string(node->cluster_id));
		(void)json_object_set_new(all, "node", json_integer(node->node));
		(void)json_object_set_new(all, "name", json_string(node->name));
		(void)json_object_set_new(all, "address", json_string(node->address));
	}
	if (m->answered_us) {
		(void)json_object_set_new(
			all, "answered_ms_ago",
			json_integer((json_int_t)((now_us - m->answered_us) / 1000)));
		(void)json_object_set_new(all, "round_trip_us",
		                          json_integer((json_int_t)m->round_trip_us));
		(void)json_object_set_new(all, "clock_skew_ms",
		                          json_integer((json_int_t)(m->skew_us / 1000)));
	}
	if (m->rewound_s)
		(void)json_object_set_new(
			all, "rewound_s_ago",
			json_integer((json_int_t)(clock_wall_us() / SECOND_US - m->rewound_s)));
	if (json_array_size(problems) > 0)
		(void)json_object_set(all, "problem", json_array_get(problems, 0));
	return all;
}
