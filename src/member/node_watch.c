// SPDX-License-Identifier: Apache-2.0
/*
 * The beats of other nodes, which each answer to a beat of this one tells: a few nodes at a time,
 * those that the database has put before it. This node notes when it saw each number first
 * (cluster/watch.h). A node whose number stays the same for long enough loses its epoch, by a claim
 * of this node; one that is silent for much longer is lost, and so is all that it had.
 */
#include "base/clock.h"
#include "base/log.h"
#include "member/database/answer_rows.h"
#include "member/member_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void on_takeover(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;

	if (answer->rows && strcmp(rows_text(answer->rows, "is_done"), "t") == 0) {
		log_warn("cluster.takeover", "message='a node that was silent has lost its epoch'");
		m->n_takeovers++;
		member_tell_gateway(m);
		return;
	}
	member_on_work_done(answer, arg);
	/* It has beaten meanwhile, or nobody knows: it may be silent again later. */
	for (size_t i = 0; i < WATCHES; i++)
		m->watches[i].claimed_epoch = 0;
}

/* A node that was silent for long enough loses its epoch; then, much later, all that it had. */
static void take_over(struct member *m, struct watched *w, const char *sql)
{
	char numbers[4][24];
	const char *const more[] = {numbers[0], numbers[1], numbers[2], numbers[3], m->server};

	(void)snprintf(numbers[0], sizeof(numbers[0]), "%" PRIu64, m->fence.epoch);
	(void)snprintf(numbers[1], sizeof(numbers[1]), "%u", w->watch.node);
	(void)snprintf(numbers[2], sizeof(numbers[2]), "%" PRIu64, w->watch.epoch);
	(void)snprintf(numbers[3], sizeof(numbers[3]), "%" PRIu64, w->watch.number);
	log_warn("cluster.silent_node", "node=%u epoch=%" PRIu64 " number=%" PRIu64, w->watch.node,
	         w->watch.epoch, w->watch.number);
	if (member_call(m, m->work, sql, more, ARRAY_SIZE(more), on_takeover) < 0)
		return; /* with the next beat's answer */
	w->claimed_epoch = w->watch.epoch;
	m->has_taken_over = true;
}

static void judge(struct member *m, struct watched *w)
{
	uint64_t now_us = clock_steady_us();

	if (!fence_allows(m->state, FENCE_AGREE))
		return;
	if (watch_is_lost(&w->watch, &m->rules, now_us))
		take_over(m, w,
		          "SELECT cluster.lose($1::int, $2, $3::bigint, $4::int, $5::bigint, "
		          "$6::bigint, $7) AS is_done");
	else if (watch_may_claim(&w->watch, &m->rules, now_us) &&
	         w->claimed_epoch != w->watch.epoch)
		take_over(m, w,
		          "SELECT cluster.claim($1::int, $2, $3::bigint, $4::int, $5::bigint, "
		          "$6::bigint, $7) AS is_done");
}

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 14695981039346656037U; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211U;
	return hash;
}

/* The slot of this node, else one whose node is not in the answer. */
static struct watched *slot_of(struct member *m, uint32_t node, const json_t *answer)
{
	struct watched *free_one = NULL;

	for (size_t i = 0; i < WATCHES; i++) {
		struct watched *w = &m->watches[i];
		bool is_in_answer = false;
		const json_t *one;
		size_t k;

		if (w->watch.node == node)
			return w;
		json_array_foreach(answer, k, one)
		{
			is_in_answer |= w->watch.node != 0 &&
			                json_integer_value(json_object_get(one, "node")) ==
			                        (json_int_t)w->watch.node;
		}
		if (!is_in_answer)
			free_one = w;
	}
	return free_one;
}

static uint64_t natural(const json_t *object, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(object, name));

	return n < 0 ? 0 : (uint64_t)n;
}

void node_watch_saw(struct member *m, const PGresult *rows, uint64_t received_us)
{
	auto_json json_t *watched = rows_json(rows, "watched");
	const json_t *one;
	size_t i;

	json_array_foreach(watched, i, one)
	{
		uint32_t node = (uint32_t)MIN(natural(one, "node"), INT32_MAX);
		struct watched *w = i < WATCHES && node ? slot_of(m, node, watched) : NULL;

		if (!w)
			continue;
		if (w->watch.node != node)
			*w = (struct watched){0};
		watch_saw(&w->watch, node, natural(one, "epoch"), natural(one, "number"),
		          hash_of(m->server), received_us);
		judge(m, w);
	}
}

json_t *node_watch_status(const struct member *m)
{
	uint64_t now_us = clock_steady_us();
	json_t *list = json_array();

	for (size_t i = 0; i < WATCHES; i++) {
		const struct watch *w = &m->watches[i].watch;

		if (w->node)
			(void)json_array_append_new(
				list, json_pack("{sI sI sI}", "node", (json_int_t)w->node, "epoch",
			                        (json_int_t)w->epoch, "same_ms",
			                        (json_int_t)((now_us - w->since_us) / 1000)));
	}
	return list;
}
