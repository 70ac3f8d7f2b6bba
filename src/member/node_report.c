// SPDX-License-Identifier: Apache-2.0
#include "member/node_report.h"

#include "base/units.h"
#include "member/papers/trouble.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* By what the database has: who was not heard of for longer than a fence takes is silent, whoever's
 * clock it is. */
static const char *state_of(const json_t *node, int64_t fence_after_ms)
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

void node_report_add(json_t *node, uint32_t here, int64_t fence_after_ms, int64_t now_s)
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

json_t *node_report_authority(const json_t *nodes)
{
	const json_t *node;
	size_t i;

	json_array_foreach(nodes, i, node)
	{
		if (json_is_true(json_object_get(json_object_get(node, "figures"), "signs")))
			return NULL;
	}
	return say(
		"authority_missing",
		"start the node that made the cluster, or put a backup of "
		"DATA/cluster/authority.key into the data directory of another and restart that "
		"one",
		"no node has the authority's key: nobody can join, and no certificate is signed");
}
