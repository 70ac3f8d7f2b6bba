// SPDX-License-Identifier: Apache-2.0
/*
 * What the directory of the cluster knows of this node's sandboxes: for lists while this node is
 * away, and for who asks where an id is.
 *
 *	changed --> dirty --> in a batch, one at a time --> told
 *	              ^            | no answer
 *	              +------------+
 *
 * A round begins with all sandboxes of this node: when the gateway has started, when its node has
 * joined anew, and when the database says that a batch is missing. After that only changes are
 * sent. Batches are numbered, so the next one shows if one was lost, on its way or by the database.
 * A batch without an answer is sent again with its number. If nothing changes, an empty batch is
 * sent from time to time, so that readers know how old the rows are.
 *
 * A sandbox that changes often is sent once a period, as it is then. So the database gets a bounded
 * number of batches, however busy the nodes are.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "node/node_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#define PERIOD_MIN_US  SECOND_US
#define PERIOD_MAX_US  (10 * SECOND_US)
#define NODES_A_SECOND 100 /* batches a second of all nodes, beyond the least period */
#define STILL_US       (10 * SECOND_US)
#define BATCH_ROWS     64
#define BATCH_BYTES    ((size_t)40000) /* a message has 64 KiB */
#define ROW_BYTES      ((size_t)24000) /* above it only the fields of `least` are told */

static const char *const least[] = {"id", "name", "state", "template", "created_us", "group", NULL};

struct dirty {
	char id[ID_SIZE];
	bool is_sent; /* in the batch under way */
	UT_hash_handle hh;
};

struct telling {
	struct node *node;
	const struct node_telling *source; /* NULL: not all sandboxes are known yet */
	void *source_arg;
	struct dirty *dirty;
	uint64_t round, number; /* of the last batch; 0: there was none */
	uint64_t epoch;         /* of the round */
	uint64_t begun_us;      /* when the round began */
	uint64_t told_us;       /* when the last batch was answered */
	uint64_t period_us;
	unsigned rows_max;
	bool is_whole; /* all of the round's beginning was told */
	bool is_asked;
	struct loop_timer *timer;
};

static void send_batch(struct telling *t);

static bool is_held(const struct telling *t)
{
	return t->source && node_is_in(t->node) && node_state(t->node) == FENCE_HELD;
}

static void add(const char *id, void *arg)
{
	struct telling *t = arg;
	struct dirty *d = NULL;

	HASH_FIND_STR(t->dirty, id, d);
	if (d) {
		d->is_sent = false;
		return;
	}
	d = xnew0(struct dirty);
	(void)snprintf(d->id, sizeof(d->id), "%s", id);
	HASH_ADD_STR(t->dirty, id, d);
}

static void drop(struct telling *t, struct dirty *d)
{
	HASH_DEL(t->dirty, d);
	free(d);
}

static void begin_round(struct telling *t)
{
	t->round = MAX(clock_wall_us(), t->number + 1);
	t->number = t->round - 1;
	t->epoch = t->node->word.epoch;
	t->begun_us = clock_steady_us();
	t->is_whole = false;
	t->source->each(add, t, t->source_arg);
	log_debug("cluster.telling", "round=%" PRIu64 " sandboxes=%u", t->round,
	          HASH_COUNT(t->dirty));
}

static void on_timer(struct loop *loop, void *arg)
{
	struct telling *t = arg;

	(void)loop;
	if (!is_held(t) || t->is_asked)
		return; /* telling_look() follows */
	if (t->round == 0 || t->epoch != t->node->word.epoch)
		begin_round(t);
	if (t->dirty || !t->is_whole || clock_steady_us() >= t->told_us + STILL_US)
		send_batch(t);
	else
		loop_timer_set_in(t->timer, STILL_US);
}

/* Sent again with its number. What is gone from memory has been in this batch for nothing. */
static void take_back(struct telling *t)
{
	struct dirty *d, *next;

	HASH_ITER (hh, t->dirty, d, next) {
		d->is_sent = false;
	}
	t->number--;
}

static void on_told(const json_t *answer, const struct err *err, void *arg)
{
	struct telling *t = arg;
	struct dirty *d, *next;
	bool is_only = t->rows_max == 1;

	t->is_asked = false;
	t->told_us = clock_steady_us();
	if (!err && strcmp(node_result(answer), "ok") == 0) {
		HASH_ITER (hh, t->dirty, d, next)
			if (d->is_sent)
				drop(t, d);
		t->is_whole |= !t->dirty;
		t->rows_max = BATCH_ROWS;
		loop_timer_set_in(t->timer, t->dirty && !t->is_whole ? 0 : t->period_us);
		return;
	}
	if (err && err->code == ERR_INTERNAL && is_only) {
		HASH_ITER (hh, t->dirty, d, next)
			if (d->is_sent) {
				log_warn("cluster.row_refused", "id=%s error='%s'", d->id,
				         err->message);
				drop(t, d);
			}
	}
	take_back(t);
	if (err && err->code == ERR_INTERNAL)
		t->rows_max = 1; /* which one is it? */
	loop_timer_set_in(t->timer, t->period_us);
	if (err)
		return;
	/* A gap, or another epoch. Where that comes again and again, it is no gap. */
	if (t->told_us < t->begun_us + STILL_US)
		loop_timer_set_in(t->timer, STILL_US);
	t->round = 0;
}

static json_t *cut(const json_t *row)
{
	json_t *small = json_object();

	for (size_t i = 0; least[i]; i++)
		(void)json_object_set(small, least[i], json_object_get(row, least[i]));
	return small;
}

/* False: it does not fit any more. */
static bool add_row(const struct telling *t, struct dirty *d, json_t *rows, json_t *gone,
                    size_t *bytes)
{
	const char *project_id = NULL;
	auto_json json_t *row = t->source->describe(d->id, &project_id, t->source_arg);
	auto_json json_t *small = NULL;
	size_t size = row ? json_dumpb(row, NULL, 0, JSON_COMPACT) : 0;

	if (size > ROW_BYTES) {
		small = cut(row);
		size = json_dumpb(small, NULL, 0, JSON_COMPACT);
	}
	size += 2 * ID_SIZE + 64;
	if (*bytes > 0 && *bytes + size > BATCH_BYTES)
		return false;
	*bytes += size;
	if (row)
		(void)json_array_append_new(rows,
		                            json_pack("{ss ss sO}", "id", d->id, "project_id",
		                                      project_id, "row", small ? small : row));
	else
		(void)json_array_append_new(gone, json_string(d->id));
	d->is_sent = true;
	return true;
}

static void send_batch(struct telling *t)
{
	auto_json json_t *rows = json_array(), *gone = json_array(), *call = NULL;
	unsigned n = 0;
	size_t bytes = 0;

	for (struct dirty *d = t->dirty; d; d = d->hh.next) {
		if (n == t->rows_max || !add_row(t, d, rows, gone, &bytes))
			break;
		n++;
	}
	t->number++;
	call = json_pack("{ss sI sI sO sO sb}", "call", "tell", "round", (json_int_t)t->round,
	                 "number", (json_int_t)t->number, "rows", rows, "gone", gone, "is_whole",
	                 !t->is_whole && n == HASH_COUNT(t->dirty));
	t->is_asked = true;
	node_call(t->node, call, on_told, t);
}

void telling_look(struct telling *t)
{
	if (is_held(t) && !t->is_asked && !loop_timer_is_set(t->timer))
		loop_timer_set_in(t->timer, 0);
}

void node_tells(struct node *n, const struct node_telling *telling, void *arg)
{
	if (!n)
		return;
	n->telling->source = telling;
	n->telling->source_arg = arg;
	telling_look(n->telling);
}

void node_sandbox_changed(struct node *n, const char *id)
{
	struct telling *t;
	bool was_empty;

	if (!node_is_in(n) || !n->telling->source)
		return; /* a round has it all */
	t = n->telling;
	was_empty = !t->dirty;
	add(id, t);
	if (was_empty && is_held(t) && !t->is_asked)
		loop_timer_set_in(t->timer, t->period_us);
}

void node_set_others(struct node *n, size_t n_nodes, const char *name)
{
	uint64_t period = (uint64_t)n_nodes * SECOND_US / NODES_A_SECOND;

	if (!n)
		return;
	n->telling->period_us = MIN(MAX(period, PERIOD_MIN_US), PERIOD_MAX_US);
	(void)snprintf(n->name, sizeof(n->name), "%s", name);
}

const char *node_own_name(const struct node *n)
{
	return n ? n->name : "";
}

struct telling *telling_new(struct node *n)
{
	struct telling *t = xnew0(struct telling);

	t->node = n;
	t->period_us = PERIOD_MIN_US;
	t->rows_max = BATCH_ROWS;
	t->timer = loop_timer_new(n->config.loop, on_timer, t);
	return t;
}

void telling_free(struct telling *t)
{
	while (t->dirty)
		drop(t, t->dirty);
	loop_timer_free(t->timer);
	free(t);
}
