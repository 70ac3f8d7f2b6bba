// SPDX-License-Identifier: Apache-2.0
/*
 * What each project has used on this node is told to the database, so that a report has it while
 * this node is silent, lost or removed. Told are whole days, as they are in this node's tables, and
 * not what has come since: so whatever is said twice, or again to a database that has lost some,
 * counts once.
 *
 *	start, rewound --> the last DAYS_TOLD days --> every TELL_US: today and yesterday
 */
#include "node/usage_telling.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "node/node_private.h"
#include "tenant/day.h"
#include "tenant/meter.h"
#include "tenant/price.h"

#include <stdio.h>
#include <string.h>
#include <uthash.h>

#define TELL_US   (10 * SECOND_US)
#define DAYS_TOLD 35 /* a month, which a budget is for, and some */
#define ROWS_MAX  100

struct told { /* of today and yesterday */
	char name[ID_SIZE + 16];
	int32_t day;
	struct usage usage;
	UT_hash_handle hh;
};

struct usage_telling {
	struct node *node;
	struct meters *meters; /* NULL: they are not there yet */
	struct loop_timer *timer;
	struct told *told;
	int32_t day; /* of the next batch; 0: from the first on */
	char after[ID_SIZE];
	bool is_telling;
	uint32_t n_compares;
	uint64_t epoch;
};

struct batch {
	struct usage_telling *t;
	struct usage_row rows[ROWS_MAX];
	char projects[ROWS_MAX][ID_SIZE];
	size_t n;
	int32_t day;
	bool has_more;
};

static void told_name(char ret[ID_SIZE + 16], const char *project_id, int32_t day)
{
	(void)snprintf(ret, ID_SIZE + 16, "%s %d", project_id, day);
}

static struct told *find(const struct usage_telling *t, const char *project_id, int32_t day)
{
	char name[ID_SIZE + 16];
	struct told *one = NULL;

	told_name(name, project_id, day);
	HASH_FIND_STR(t->told, name, one);
	return one;
}

/* Before a day, or all with INT32_MAX. */
static void forget(struct usage_telling *t, int32_t before)
{
	struct told *one, *next;

	for (one = t->told; one; one = next) {
		next = one->hh.next;
		if (one->day >= before)
			continue;
		HASH_DEL(t->told, one);
		free(one);
	}
}

static int32_t today(void)
{
	return day_of(clock_wall_us());
}

/* Rows of one day come by project and key. */
static int add_row(const struct usage_row *row, void *arg)
{
	struct batch *b = arg;

	if (b->n > 0 && strcmp(b->projects[b->n - 1], row->project_id) == 0) {
		usage_add(&b->rows[b->n - 1].usage, &row->usage);
		return 0;
	}
	if (strcmp(row->project_id, b->t->after) <= 0)
		return 0;
	b->has_more = b->n == ROWS_MAX;
	if (b->has_more)
		return 1;
	(void)snprintf(b->projects[b->n], ID_SIZE, "%s", row->project_id);
	b->rows[b->n] = (struct usage_row){.day = row->day, .usage = row->usage};
	b->rows[b->n].project_id = b->projects[b->n];
	b->n++;
	return 0;
}

/* The rows that the database does not know as they are. */
static json_t *describe(const struct batch *b)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < b->n; i++) {
		const struct told *known = find(b->t, b->projects[i], b->day);
		json_t *figures;

		if (known && memcmp(&known->usage, &b->rows[i].usage, sizeof(struct usage)) == 0)
			continue;
		figures = json_array();
		for (unsigned f = 0; f < USAGE_FIGURE_COUNT; f++)
			(void)json_array_append_new(
				figures, json_integer((json_int_t)b->rows[i].usage.of[f]));
		(void)json_array_append_new(rows,
		                            json_pack("[sio]", b->projects[i], b->day, figures));
	}
	return rows;
}

static void keep(struct usage_telling *t, const struct batch *b)
{
	for (size_t i = 0; i < b->n && b->day >= today() - 1; i++) {
		struct told *one = find(t, b->projects[i], b->day);

		if (!one) {
			one = xnew0(struct told);
			told_name(one->name, b->projects[i], b->day);
			one->day = b->day;
			HASH_ADD_STR(t->told, name, one);
		}
		one->usage = b->rows[i].usage;
	}
}

/* To the next batch; after the last one, to the next time. */
static void go_on(struct usage_telling *t, const struct batch *b)
{
	if (b->has_more) {
		(void)snprintf(t->after, sizeof(t->after), "%s", b->projects[b->n - 1]);
		loop_timer_set_in(t->timer, 0);
		return;
	}
	t->after[0] = '\0';
	t->day = b->day + 1;
	if (t->day <= today()) {
		loop_timer_set_in(t->timer, 0);
		return;
	}
	t->day = today() - 1;
	forget(t, t->day);
	loop_timer_set_in(t->timer, TELL_US);
}

static void on_told(const json_t *answer, const struct err *err, void *arg)
{
	struct batch *b = arg;
	struct usage_telling *t = b->t;

	t->is_telling = false;
	if (err || strcmp(node_result(answer), "ok") != 0) {
		log_debug("cluster.usage_not_told", "error='%s'", err ? err->message : "stale");
		loop_timer_set_in(t->timer, TELL_US);
	} else {
		keep(t, b);
		go_on(t, b);
	}
	free(b);
}

static void tell(struct usage_telling *t)
{
	struct batch *b = xnew0(struct batch);
	auto_json json_t *rows = NULL, *call = NULL;
	struct err err;

	if (t->day == 0)
		t->day = today() - DAYS_TOLD;
	b->t = t;
	b->day = t->day;
	if (store_usage_each_day(meters_store(t->meters), NULL, b->day, b->day, add_row, b, &err) <
	    0) {
		log_error("cluster.usage_unreadable", "error='%s'", err.message);
		loop_timer_set_in(t->timer, TELL_US);
		free(b);
		return;
	}
	rows = describe(b);
	if (json_array_size(rows) == 0 && t->day != today()) {
		go_on(t, b);
		free(b);
		return;
	}
	/* Today's batch goes also without rows: the time that it is from is told with it. */
	call = json_pack("{ss sO}", "call", "tell_usage", "rows", rows);
	t->is_telling = true;
	node_call(t->node, call, on_told, b);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct usage_telling *t = arg;
	struct node *n = t->node;

	(void)loop;
	if (t->is_telling || !t->meters)
		return;
	if (!node_is_in(n) || node_state(n) != FENCE_HELD) {
		loop_timer_set_in(t->timer, TELL_US);
		return;
	}
	if (t->n_compares != n->word.n_compares || t->epoch != n->word.epoch) {
		t->n_compares = n->word.n_compares;
		t->epoch = n->word.epoch;
		t->day = 0;
		t->after[0] = '\0';
		forget(t, INT32_MAX);
	}
	tell(t);
}

void node_tells_usage(struct node *n, struct meters *meters)
{
	if (!n)
		return;
	n->usage->meters = meters;
	loop_timer_set_in(n->usage->timer, 0);
}

struct usage_telling *usage_telling_new(struct node *n)
{
	struct usage_telling *t = xnew0(struct usage_telling);

	t->node = n;
	t->n_compares = UINT32_MAX;
	t->timer = loop_timer_new(n->config.loop, on_timer, t);
	return t;
}

void usage_telling_free(struct usage_telling *t)
{
	loop_timer_free(t->timer);
	forget(t, INT32_MAX);
	free(t);
}
