// SPDX-License-Identifier: Apache-2.0
/*
 * The connection for beats alone, which must not wait behind other work. On it, in this order:
 *
 *	hello --> epoch_of --> join_node --> beat, beat, beat …
 *	            ^                          |
 *	            +---- its epoch is over ---+
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "member/database/answer_rows.h"
#include "member/member_private.h"
#include "member/papers/signing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BEATS_OF 3 /* in a fence_after: two may be lost */

static void ask_epoch(struct member *m);

static void fail_beats(struct member *m, enum trouble trouble, const char *message)
{
	database_drop_later(m->beats, trouble, message);
}

/* The gateway asks for what has changed, and hears until when the node counts as living. */
static void note_change(struct member *m, const PGresult *rows)
{
	m->change = (uint64_t)MAX(rows_number(rows, "change"), 0);
	member_tell_gateway(m);
}

static void on_beat_answer(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	uint64_t now_us = clock_steady_us();

	if (!answer->rows) {
		fail_beats(m, answer->trouble, answer->message);
		return;
	}
	rewind_look(m, rows_text(answer->rows, "server"));
	if (strcmp(rows_text(answer->rows, "is_taken"), "t") != 0) {
		log_warn("cluster.epoch_over", "node=%s epoch=%" PRIu64, m->node_text,
		         m->fence.epoch);
		fence_refused(&m->fence);
		member_look(m);
		ask_epoch(m);
		return;
	}
	m->skew_us = rows_number(answer->rows, "at_us") - (int64_t)clock_wall_us();
	if (!fence_answered(&m->fence, m->fence.number))
		return; /* the clocks have parted meanwhile: the next one counts */
	m->answered_us = now_us;
	m->round_trip_us = now_us - m->sent_us;
	member_set_trouble(m, TROUBLE_NONE, "");
	m->n_wanted += rows_text(answer->rows, "wanted")[0] != '\0';
	note_change(m, answer->rows);
	json_decref(m->sample);
	m->sample = rows_json(answer->rows, "sample");
	node_watch_saw(m, answer->rows, now_us);
	follow_up(m, answer->rows);
}

/* What a beat tells of the node, for the others' `cloche cluster status`. */
static char *figures_of(const struct member *m)
{
	auto_json json_t *all =
		json_pack("{sI sI sI sb ss}", "certificate_end_s", (json_int_t)m->own.term.end_s,
	                  "certificate_begin_s", (json_int_t)m->own.term.begin_s, "skew_ms",
	                  (json_int_t)(m->skew_us / 1000), "signs",
	                  m->config.authority->key != NULL, "version", CLOCHE_VERSION);

	if (m->load)
		(void)json_object_set(all, "load", m->load);
	return json_dumps(all, JSON_COMPACT);
}

/* A beat can be said again, so its commit waits for no disk and no standby: a standby that is away
 * fences nobody. The setting must hold when the transaction ends, and what a function sets for
 * itself ends with the function. */
static void send_beat(struct member *m)
{
	char epoch[24], number[24];
	auto_free char *figures = figures_of(m);
	const char *const more[] = {epoch, number, figures ? figures : "{}"};

	m->sent_us = clock_steady_us();
	(void)snprintf(epoch, sizeof(epoch), "%" PRIu64, m->fence.epoch);
	(void)snprintf(number, sizeof(number), "%" PRIu64, fence_send(&m->fence, m->sent_us));
	if (member_call(m, m->beats,
	                "SELECT is_taken, server, watched, wanted, n_requests, directory_number, "
	                "at_us, "
	                "change, "
	                "cluster.sample($1::int, $2) AS sample FROM "
	                "set_config('synchronous_commit', 'off', true), "
	                "cluster.beat($1::int, $2, $3::bigint, $4::bigint, $5::jsonb)",
	                more, ARRAY_SIZE(more), on_beat_answer) < 0)
		log_debug("cluster.beat_left_out", "number=%s", number);
}

void beats_on_timer(struct loop *loop, void *arg)
{
	struct member *m = arg;

	(void)loop;
	loop_timer_set_in(m->beat, m->rules.beat_us);
	fence_look(&m->fence, &m->rules, clock_steady_us(), clock_wall_us());
	member_look(m);
	if (m->fence.is_in && !m->fence.is_open && database_is_up(m->beats))
		send_beat(m);
}

static void on_joined(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	int64_t epoch = answer->rows ? rows_number(answer->rows, "epoch") : -1;

	if (!answer->rows) {
		fail_beats(m, answer->trouble, answer->message);
	} else if (epoch <= 0) {
		ask_epoch(m); /* it was raised between the two calls */
	} else if (fence_joined(&m->fence, m->fence.number, (uint64_t)epoch)) {
		log_info("cluster.joined", "node=%s name=%s epoch=%" PRId64, m->node_text,
		         m->config.node->name, epoch);
		m->answered_us = clock_steady_us();
		member_set_trouble(m, TROUBLE_NONE, "");
		loop_timer_set_in(m->beat, 0);
	} else {
		fail_beats(m, TROUBLE_STARTING, "the clocks have parted while it joined");
	}
}

/* At the first join nothing is there. At all others the gateway compares what is there with what
 * it has. */
static void on_epoch(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	char number[24];
	const char *const more[] = {answer->rows ? rows_text(answer->rows, "epoch") : "", number};

	if (!answer->rows) {
		fail_beats(m, answer->trouble, answer->message);
		return;
	}
	m->sent_us = clock_steady_us();
	fence_look(&m->fence, &m->rules, m->sent_us, clock_wall_us());
	(void)snprintf(number, sizeof(number), "%" PRIu64, fence_send(&m->fence, m->sent_us));
	if (member_call(m, m->beats,
	                "SELECT cluster.join_node($1::int, $2, $3::bigint, $4::bigint, "
	                "$3::bigint = 0) AS epoch",
	                more, ARRAY_SIZE(more), on_joined) < 0)
		fail_beats(m, TROUBLE_UNREACHABLE, "the connection is lost");
}

static void ask_epoch(struct member *m)
{
	if (member_call(m, m->beats, "SELECT cluster.epoch_of($1::int, $2) AS epoch", NULL, 0,
	                on_epoch) < 0)
		fail_beats(m, TROUBLE_UNREACHABLE, "the connection is lost");
}

static void set_rules(struct member *m, const PGresult *rows)
{
	uint64_t fence_us = 1000 * (uint64_t)rows_number(rows, "fence_after_ms");
	uint64_t lost_us = 1000 * (uint64_t)rows_number(rows, "lost_after_ms");

	m->rules = (struct fence_rules){
		.beat_us = fence_us / BEATS_OF,
		.fence_after_us = fence_us,
		.lost_after_us = lost_us,
		.margin_us = fence_us / 6,
		.ending_us = MIN(fence_usual.ending_us, lost_us / 3),
		.clock_jump_us = fence_usual.clock_jump_us,
	};
	database_set_call_us(m->beats, fence_us / 2);
	/* Who rests for longer than a beat is claimed by those that are back before. */
	database_set_rest_max_us(m->beats, MIN(m->rules.beat_us, fence_usual.beat_us));
	database_set_rest_max_us(m->work, MIN(m->rules.beat_us, fence_usual.beat_us));
}

static void on_hello(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	const struct node_file *node = m->config.node;
	enum trouble trouble = TROUBLE_NONE;
	struct err err = {0};

	if (!answer->rows) {
		fail_beats(m, answer->trouble, answer->message);
		return;
	}
	trouble = signing_check_hello(answer->rows, node->cluster_id, MEMBER_SCHEMA, &err);
	if (trouble != TROUBLE_NONE) {
		fail_beats(m, trouble, err.message);
		return;
	}
	set_rules(m, answer->rows);
	if (m->fence.is_in) /* it goes on with its epoch: a beat tells whether that holds */
		loop_timer_set_in(m->beat, 0);
	else
		ask_epoch(m);
}

static void on_beats_ready(void *arg)
{
	struct member *m = arg;

	if (database_call(m->beats, "SELECT * FROM cluster.hello()", NULL, 0, on_hello, m) < 0)
		fail_beats(m, TROUBLE_UNREACHABLE, "the connection is lost");
}

/* The beat under way has no answer any more: the next may be sent. */
static void on_beats_lost(enum trouble trouble, const char *message, void *arg)
{
	struct member *m = arg;

	m->fence.is_open = false;
	member_set_trouble(m, trouble, message);
}

const struct database_ops beats_ops = {.ready = on_beats_ready, .lost = on_beats_lost};
