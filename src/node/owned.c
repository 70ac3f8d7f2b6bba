// SPDX-License-Identifier: Apache-2.0
#include "node/owned.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "node/node_private.h"
#include "node/sealed_records.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#define PASS_US    (30 * SECOND_US)
#define AGAIN_US   SECOND_US
#define TAKE_MOST  50
#define PAGE_ROWS  400 /* of the database's answers */
#define ROWS_MAX   1000000
#define LABEL_SIZE (3 * ID_SIZE + 32)

struct owned_row {
	char id[ID_SIZE], generation[ID_SIZE];
	uint64_t term;
	uint32_t node; /* of one that has moved */
	bool is_known; /* it is here */
	UT_hash_handle hh;
};

enum pass_step {
	PASS_NONE,
	PASS_TAKE,
	PASS_ROWS,
	PASS_ASK,   /* what has become of one that has no row */
	PASS_MAKE,  /* one that is not here */
	PASS_MOVED, /* rows of others */
};

struct owned {
	struct node *node;
	const struct node_owners *owners; /* NULL: the sandboxes are not known yet */
	void *arg;
	struct loop_timer *timer, *right;
	enum pass_step step;
	uint64_t epoch; /* of the pass under way */
	uint32_t n_takeovers, n_compares;
	bool has_passed, is_due, was_owning;
	uint64_t owns_epoch; /* in which all was compared; 0: none */
	uint32_t passed_takeovers, passed_compares;
	struct owned_row *rows;             /* of this node, in the database */
	struct owned_row *unknown, *absent; /* to be asked about; to be made */
	struct owned_row *moved, *next_moved;
	char after[ID_SIZE];
};

static void go_on(struct owned *o);

static void clear(struct owned_row **rows)
{
	struct owned_row *r, *next;

	HASH_ITER (hh, *rows, r, next) {
		HASH_DEL(*rows, r);
		free(r);
	}
}

static struct owned_row *put(struct owned_row **rows, const char *id)
{
	struct owned_row *r = NULL;

	HASH_FIND_STR(*rows, id, r);
	if (r)
		return r;
	r = xnew0(struct owned_row);
	(void)snprintf(r->id, sizeof(r->id), "%s", id);
	HASH_ADD_STR(*rows, id, r);
	return r;
}

bool node_owns(const struct node *n)
{
	if (!n || !node_is_in(n))
		return true;
	return node_state(n) == FENCE_HELD && n->owned->owns_epoch != 0 &&
	       n->owned->owns_epoch == n->word.epoch && clock_steady_us() < n->word.right_us;
}

static void note(struct owned *o)
{
	const bool owns = node_owns(o->node);

	if (owns != o->was_owning && o->owners)
		log_info("cluster.owning", "node=%u epoch=%" PRIu64 " owns=%d", o->node->word.node,
		         o->node->word.epoch, owns);
	o->was_owning = owns;
	if (!node_is_in(o->node))
		loop_timer_set(o->right, UINT64_MAX);
	else if (owns)
		loop_timer_set(o->right, o->node->word.right_us);
	else
		loop_timer_set_in(o->right, AGAIN_US);
	if (o->owners)
		o->owners->changed(o->arg);
}

static void on_right_over(struct loop *loop, void *arg)
{
	(void)loop;
	note(arg);
}

/* Seals. */

static void label_of(const char *project_id, const char *id, const char *generation,
                     char ret[LABEL_SIZE])
{
	(void)snprintf(ret, LABEL_SIZE, "cluster owned %s %s %s", project_id, id, generation);
}

/* The pass. */

static void end_pass(struct owned *o, uint64_t again_us)
{
	o->step = PASS_NONE;
	clear(&o->rows);
	clear(&o->unknown);
	clear(&o->absent);
	clear(&o->next_moved);
	loop_timer_set_in(o->timer, again_us);
}

/* True: the answer is as it should be, and the pass goes on. */
static bool is_good(struct owned *o, const json_t *answer, const struct err *err)
{
	if (err)
		log_warn("cluster.owned_not_compared", "error='%s'", err->message);
	if (o->epoch != o->node->word.epoch || err || strcmp(node_result(answer), "stale") == 0) {
		end_pass(o, AGAIN_US);
		return false;
	}
	return true;
}

static bool read_row(const json_t *row, struct owned_row **into)
{
	const char *id = json_string_value(json_object_get(row, "id"));
	const char *generation = json_string_value(json_object_get(row, "generation"));
	const json_int_t term = json_integer_value(json_object_get(row, "term"));
	const json_int_t node = json_integer_value(json_object_get(row, "node"));
	struct owned_row *r;

	if (!id || !id_is_valid(id, "sb") || HASH_COUNT(*into) >= ROWS_MAX)
		return false;
	r = put(into, id);
	r->term = term > 0 ? (uint64_t)term : 0;
	r->node = node > 0 && node <= INT32_MAX ? (uint32_t)node : 0;
	(void)snprintf(r->generation, sizeof(r->generation), "%s",
	               generation && id_is_valid(generation, "sn") ? generation : "");
	return true;
}

/* False: that was the last page. */
static bool read_page(struct owned *o, const json_t *answer, struct owned_row **into)
{
	const json_t *rows = json_object_get(answer, "rows"), *row;
	char last[ID_SIZE];
	size_t i;

	memcpy(last, o->after, sizeof(last));
	json_array_foreach(rows, i, row)
	{
		const char *id = json_string_value(json_object_get(row, "id"));

		if (read_row(row, into) && strcmp(id, o->after) > 0)
			(void)snprintf(o->after, sizeof(o->after), "%s", id);
	}
	return json_array_size(rows) >= PAGE_ROWS && strcmp(last, o->after) < 0;
}

static void compare_one(const char *id, uint64_t term, void *arg)
{
	struct owned *o = arg;
	struct owned_row *r = NULL;

	HASH_FIND_STR(o->rows, id, r);
	if (!r) {
		put(&o->unknown, id);
		return;
	}
	r->is_known = true;
	if (term != 0 && r->term != term)
		o->owners->end(id, OWNED_MOVED, o->arg); /* and made anew by the next pass */
	else if (term == 0)
		o->owners->learn(id, r->term, r->generation, o->arg);
}

static void compare(struct owned *o)
{
	struct owned_row *r, *next;

	o->owners->each(compare_one, o, o->arg);
	HASH_ITER (hh, o->rows, r, next)
		if (!r->is_known && !o->owners->has(r->id, o->arg))
			put(&o->absent, r->id);
	o->step = PASS_ASK;
}

static void on_rows(const json_t *answer, const struct err *err, void *arg)
{
	struct owned *o = arg;

	if (!is_good(o, answer, err))
		return;
	if (!read_page(o, answer, &o->rows))
		compare(o);
	go_on(o);
}

static void on_taken(const json_t *answer, const struct err *err, void *arg)
{
	struct owned *o = arg;
	const json_int_t n = json_integer_value(json_object_get(answer, "n"));

	if (!is_good(o, answer, err))
		return;
	if (n > 0)
		log_warn("cluster.taken_over",
		         "sandboxes=%d message='of nodes that are silent or removed'", (int)n);
	if (n < TAKE_MOST)
		o->step = PASS_ROWS;
	go_on(o);
}

static void on_fate(const json_t *answer, const struct err *err, void *arg)
{
	struct owned *o = arg;
	struct owned_row *r = o->unknown;
	const json_int_t node = json_integer_value(json_object_get(answer, "node"));

	if (!is_good(o, answer, err))
		return;
	if (json_is_true(json_object_get(answer, "is_gone")))
		o->owners->end(r->id, OWNED_GONE, o->arg);
	else if (node != 0 && node != (json_int_t)o->node->word.node)
		o->owners->end(r->id, OWNED_MOVED, o->arg);
	else if (node == 0)
		o->owners->end(r->id, OWNED_UNKNOWN, o->arg);
	HASH_DEL(o->unknown, r);
	free(r);
	go_on(o);
}

static int take(struct owned *o, const struct owned_row *r, const json_t *row, struct err *err)
{
	const char *project = json_string_value(json_object_get(row, "project_id"));
	const char *generation = json_string_value(json_object_get(row, "generation"));
	const char *sealed = json_string_value(json_object_get(row, "sealed"));
	const char *from = json_string_value(json_object_get(row, "from"));
	const json_int_t term = json_integer_value(json_object_get(row, "term"));
	const json_int_t lost = json_integer_value(json_object_get(row, "lost_ms"));
	struct node_owned what = {.id = r->id, .from = from ? from : ""};
	char label[LABEL_SIZE];
	char *record = NULL;
	int n;

	if (!project || !id_is_valid(project, "prj") || !generation ||
	    !id_is_valid(generation, "sn") || !sealed || term <= 0 || strlen(what.from) > 63)
		return err_set(err, ERR_CONFLICT, 0, "its row in the database has another shape");
	label_of(project, r->id, generation, label);
	n = node_open_sealed(o->node, label, sealed, &record, err);
	if (n < 0)
		return n;
	what.project_id = project;
	what.generation = generation;
	what.record = record;
	what.term = (uint64_t)term;
	what.lost_ms = lost > 0 ? (uint64_t)lost : 0;
	n = o->owners->take(&what, err, o->arg);
	explicit_bzero(record, strlen(record));
	free(record);
	return n;
}

static void on_row(const json_t *answer, const struct err *failure, void *arg)
{
	struct owned *o = arg;
	struct owned_row *r = o->absent;
	const json_t *row = json_object_get(answer, "row");
	struct err err;

	if (!is_good(o, answer, failure))
		return;
	if (json_is_object(row) && take(o, r, row, &err) < 0)
		log_error("sandbox.not_restored", "id=%s error='%s'", r->id, err.message);
	HASH_DEL(o->absent, r);
	free(r);
	go_on(o);
}

static void on_moved(const json_t *answer, const struct err *err, void *arg)
{
	struct owned *o = arg;

	if (!is_good(o, answer, err))
		return;
	if (read_page(o, answer, &o->next_moved)) {
		go_on(o);
		return;
	}
	clear(&o->moved);
	o->moved = o->next_moved;
	o->next_moved = NULL;
	o->has_passed = true;
	o->passed_takeovers = o->n_takeovers;
	o->passed_compares = o->n_compares;
	end_pass(o, PASS_US);
	owned_look(o);
}

static void ask(struct owned *o, const char *call, const char *field, const char *value,
                node_answer_fn fn)
{
	auto_json json_t *json = json_pack("{ss ss}", "call", call, field, value);

	node_call(o->node, json, fn, o);
}

/* Behind the comparison, and what became of those without a row. */
static void note_compared(struct owned *o)
{
	if (o->owns_epoch == o->epoch)
		return;
	o->owns_epoch = o->epoch;
	note(o);
}

static void go_on(struct owned *o)
{
	auto_json json_t *call = NULL;

	switch (o->step) {
	case PASS_NONE:
		return;
	case PASS_TAKE:
		call = json_pack("{ss sI}", "call", "take_over", "most", (json_int_t)TAKE_MOST);
		node_call(o->node, call, on_taken, o);
		return;
	case PASS_ROWS:
		ask(o, "owned_rows", "after", o->after, on_rows);
		return;
	case PASS_ASK:
		if (o->unknown) {
			ask(o, "owner_of", "sandbox_id", o->unknown->id, on_fate);
			return;
		}
		note_compared(o);
		o->step = PASS_MAKE;
		__attribute__((fallthrough));
	case PASS_MAKE:
		if (o->absent) {
			ask(o, "owned_row", "sandbox_id", o->absent->id, on_row);
			return;
		}
		o->step = PASS_MOVED;
		o->after[0] = '\0';
		__attribute__((fallthrough));
	case PASS_MOVED:
		ask(o, "moved_rows", "after", o->after, on_moved);
		return;
	}
}

static void begin_pass(struct owned *o)
{
	o->epoch = o->node->word.epoch;
	o->n_takeovers = o->node->word.n_takeovers;
	o->n_compares = o->node->word.n_compares;
	o->is_due = false;
	o->after[0] = '\0';
	o->step = o->owners->may_take(o->arg) ? PASS_TAKE : PASS_ROWS;
	loop_timer_set(o->timer, UINT64_MAX);
	go_on(o);
}

static bool is_due(const struct owned *o)
{
	const struct cluster_word *w = &o->node->word;

	return o->is_due || !o->has_passed || o->owns_epoch != w->epoch ||
	       o->passed_takeovers != w->n_takeovers || o->passed_compares != w->n_compares;
}

void owned_look(struct owned *o)
{
	if (o->owners && o->node->has_word)
		note(o);
	if (!o->owners || !node_is_in(o->node) || node_state(o->node) != FENCE_HELD ||
	    o->step != PASS_NONE || !is_due(o) || !node_has_key(o->node))
		return;
	begin_pass(o);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct owned *o = arg;

	(void)loop;
	o->is_due = true;
	if (o->owners && node_is_in(o->node))
		loop_timer_set_in(o->timer, PASS_US);
	owned_look(o);
}

void node_compare_owned(struct node *n)
{
	if (n && n->owned->step == PASS_NONE)
		loop_timer_set_in(n->owned->timer, 0);
}

/* Rows. */

struct own_call {
	node_own_fn fn;
	void *arg;
};

static void on_owned(const json_t *answer, const struct err *failure, void *arg)
{
	const struct own_call c = *(struct own_call *)arg;
	const char *result = node_result(answer);
	const json_int_t term = json_integer_value(json_object_get(answer, "term"));
	struct err err = {0};

	free(arg);
	if (failure)
		c.fn(OWNED_REFUSED, 0, failure, c.arg);
	else if (strcmp(result, "ok") == 0)
		c.fn(OWNED_OK, term > 0 ? (uint64_t)term : 0, NULL, c.arg);
	else if (strcmp(result, "moved") == 0 || strcmp(result, "gone") == 0)
		c.fn(OWNED_ELSEWHERE, 0, NULL, c.arg);
	else {
		(void)node_refuse(&err,
		                  strcmp(result, "full") == 0
		                          ? "the project has as many such sandboxes as it can have"
		                          : "this node has just rejoined the cluster");
		c.fn(OWNED_REFUSED, 0, &err, c.arg);
	}
}

int node_own(struct node *n, const struct node_owned *what, uint64_t age_ms, node_own_fn fn,
             void *arg)
{
	auto_json json_t *call = NULL;
	auto_free char *sealed = NULL;
	char label[LABEL_SIZE];
	struct own_call *c;

	if (strlen(what->record) > NODE_OWNED_MAX)
		return -E2BIG;
	if (!node_has_key(n))
		return -EAGAIN;
	label_of(what->project_id, what->id, what->generation, label);
	sealed = node_make_sealed(n, label, what->record);
	if (!sealed)
		return -EAGAIN;
	call = json_pack("{ss ss ss sI ss sI ss}", "call", "own", "sandbox_id", what->id,
	                 "project_id", what->project_id, "term", (json_int_t)what->term,
	                 "generation", what->generation, "age_ms", (json_int_t)age_ms, "sealed",
	                 sealed);
	c = xnew0(struct own_call);
	*c = (struct own_call){fn, arg};
	node_call(n, call, on_owned, c);
	return 0;
}

void node_disown(struct node *n, const char *project_id, const char *id, node_own_fn fn, void *arg)
{
	auto_json json_t *call = json_pack("{ss ss ss}", "call", "disown", "sandbox_id", id,
	                                   "project_id", project_id);
	struct own_call *c = xnew0(struct own_call);

	*c = (struct own_call){fn, arg};
	node_call(n, call, on_owned, c);
}

uint32_t node_forward(const struct node *n, const char *id)
{
	struct owned_row *r = NULL;

	if (!n || !n->owned)
		return 0;
	HASH_FIND_STR(n->owned->moved, id, r);
	return r ? r->node : 0;
}

void node_has_owned(struct node *n, const struct node_owners *owners, void *arg)
{
	if (!n)
		return;
	n->owned->owners = owners;
	n->owned->arg = arg;
	loop_timer_set_in(n->owned->timer, 0);
}

struct owned *owned_new(struct node *n)
{
	struct owned *o = xnew0(struct owned);

	o->node = n;
	o->timer = loop_timer_new(n->config.loop, on_timer, o);
	o->right = loop_timer_new(n->config.loop, on_right_over, o);
	return o;
}

void owned_free(struct owned *o)
{
	clear(&o->rows);
	clear(&o->unknown);
	clear(&o->absent);
	clear(&o->moved);
	clear(&o->next_moved);
	loop_timer_free(o->timer);
	loop_timer_free(o->right);
	free(o);
}
