// SPDX-License-Identifier: Apache-2.0
#include "member/collect/collect_private.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "member/database/answer_rows.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DUTY        "collect"
#define LOOK_US     (300 * SECOND_US) /* whether a round is due */
#define KEEP_US     (60 * SECOND_US)  /* the duty is kept for longer */
#define AGAIN_US    (900 * SECOND_US) /* behind a round that has failed, at the most */
#define SKEW_MAX_US (int64_t) OBJECT_SKEW_US
#define SCRATCH     "/" /* the member's own directory */

static void round_free(struct round *r)
{
	for (size_t i = 0; i < COLLECT_SLOTS; i++)
		close_fd(&r->slots[i].fd);
	close_fd(&r->list_fd);
	HASH_CLEAR(hh, r->by_id);
	for (size_t i = 0; i < r->n_projects; i++) {
		object_keys_wipe(&r->projects[i]->keys);
		free(r->projects[i]);
	}
	object_filter_free(r->needed);
	free(r->projects);
	free(r->refs);
	free(r->victims);
	free(r->after);
	free(r);
}

void *round_grow(void *rows, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return rows;
	*room = MAX(*room * 2, (size_t)64);
	return xrealloc(rows, *room * size);
}

int round_scratch(struct round *r)
{
	int fd = open(SCRATCH, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		round_fail(r, TROUBLE_STORE_SETTING, "this node has no room to list objects");
	return fd;
}

static json_t *figures_of(const struct round *r)
{
	json_t *all =
		json_pack("{sI ss sI sI sI sI sI sI sI}", "at_us", (json_int_t)clock_wall_us(),
	                  "node", r->collect->m->config.node->name, "objects",
	                  (json_int_t)r->n_objects, "bytes", (json_int_t)r->bytes, "waiting",
	                  (json_int_t)r->n_waiting + (json_int_t)r->n_unneeded, "waiting_bytes",
	                  (json_int_t)r->waiting_bytes + (json_int_t)r->unneeded_bytes, "removed",
	                  (json_int_t)r->n_removed, "removed_bytes", (json_int_t)r->removed_bytes,
	                  "swept", (json_int_t)r->n_swept);

	if (r->trouble)
		(void)json_object_set_new(all, "problem",
		                          json_pack("{ss ss ss}", "code", trouble_code(r->trouble),
		                                    "message", r->message, "hint",
		                                    trouble_hint(r->trouble)));
	return all;
}

static void on_ended(const struct database_answer *answer, void *arg)
{
	if (!answer->rows) /* it is free again when its time is over */
		member_on_work_done(answer, arg);
}

static void finish(struct round *r)
{
	struct collect *c = r->collect;
	const bool is_more = r->n_unneeded > r->n_victims || r->next_victim < r->n_victims;
	const uint64_t again_us = r->trouble || is_more ? MIN(AGAIN_US, c->every_us) : c->every_us;
	auto_json json_t *figures = figures_of(r);
	auto_free char *text = json_dumps(figures, JSON_COMPACT);
	char epoch[24], again[24];
	const char *const more[] = {epoch, DUTY, text ? text : "{}", again};

	(void)snprintf(epoch, sizeof(epoch), "%" PRIu64, c->m->fence.epoch);
	(void)snprintf(again, sizeof(again), "%" PRIu64, MAX(again_us / SECOND_US, UINT64_C(1)));
	log_write(r->trouble ? LOG_WARN : LOG_INFO, "cluster.collected",
	          "objects=%" PRIu64 " bytes=%" PRIu64 " waiting=%" PRIu64 " removed=%" PRIu64
	          " removed_bytes=%" PRIu64 " swept=%" PRIu64 " code='%s' message='%s'",
	          r->n_objects, r->bytes, r->n_waiting, r->n_removed, r->removed_bytes, r->n_swept,
	          trouble_code(r->trouble), r->message);
	if (!r->is_over && member_call(c->m, c->m->work,
	                               "SELECT cluster.end_duty($1::int, $2, $3::bigint, $4, "
	                               "$5::jsonb, $6::bigint)",
	                               more, ARRAY_SIZE(more), on_ended) == 0) {
		json_decref(c->figures);
		c->figures = json_incref(figures);
	}
	c->round = NULL;
	round_free(r);
	loop_timer_set_in(c->timer, MIN(LOOK_US, again_us));
}

void round_end(struct round *r)
{
	if (r->n_open == 0)
		finish(r);
}

void round_fail(struct round *r, enum trouble trouble, const char *message)
{
	if (r->trouble)
		return;
	r->trouble = trouble;
	(void)snprintf(r->message, sizeof(r->message), "%s", message);
}

bool round_goes_on(struct round *r)
{
	r->n_open--;
	if (!r->trouble && r->n_compares != r->collect->m->n_compares)
		round_fail(r, TROUBLE_STARTING, "the database was started anew meanwhile");
	if (!r->trouble)
		return true;
	round_end(r);
	return false;
}

/* Nobody is told from inside: what has failed at once ends the round behind what is under way. */
static void on_failed(struct loop *loop, void *arg)
{
	(void)loop;
	(void)!round_goes_on(arg);
}

static void fail_later(struct round *r, enum trouble trouble, const char *message)
{
	round_fail(r, trouble, message);
	loop_defer(r->collect->m->config.loop, on_failed, r);
}

void round_ask(struct round *r, const char *sql, const char *const *more, size_t n_more,
               database_fn fn)
{
	struct member *m = r->collect->m;
	const char *params[DATABASE_PARAMS_MAX] = {m->node_text, m->config.node->secret};

	for (size_t i = 0; i < n_more; i++)
		params[2 + i] = more[i];
	r->n_open++;
	if (database_call(m->work, sql, params, 2 + n_more, fn, r) < 0)
		fail_later(r, TROUBLE_UNREACHABLE, "PostgreSQL is not reached");
}

void round_do(struct round *r, const struct store_job *job, int fd, store_fn fn, void *arg)
{
	r->n_open++;
	store_pool_do(r->collect->m->config.store, job, fd, fn, arg);
}

/* The duty. */

struct keeping {
	struct round *round;
	void (*next)(struct round *r);
};

static void on_kept(const struct database_answer *answer, void *arg)
{
	const struct keeping k = *(struct keeping *)arg;
	struct round *r = k.round;
	auto_json json_t *all = answer->rows ? rows_json(answer->rows, "answer") : NULL;
	const char *result = json_string_value(json_object_get(all, "result"));

	free(arg);
	if (!answer->rows) {
		round_fail(r, answer->trouble, answer->message);
	} else if (!result || strcmp(result, "ok") != 0) {
		r->is_over = true;
		round_fail(r, TROUBLE_STARTING,
		           "another node has the duty, or the database was started anew");
	}
	if (!round_goes_on(r))
		return;
	r->kept_us = clock_steady_us();
	k.next(r);
}

void round_mark(struct round *r, json_t *names, void (*next)(struct round *r))
{
	struct member *m = r->collect->m;
	auto_free char *text = json_dumps(names, JSON_COMPACT);
	char epoch[24];
	const char *const params[] = {m->node_text, m->config.node->secret, epoch, DUTY,
	                              text ? text : "[]"};
	struct keeping *k = xnew0(struct keeping);

	*k = (struct keeping){.round = r, .next = next};
	(void)snprintf(epoch, sizeof(epoch), "%" PRIu64, m->fence.epoch);
	r->n_open++;
	if (database_call(m->work,
	                  "SELECT cluster.keep_duty($1::int, $2, $3::bigint, $4, $5::jsonb) AS "
	                  "answer",
	                  params, ARRAY_SIZE(params), on_kept, k) < 0) {
		free(k);
		fail_later(r, TROUBLE_UNREACHABLE, "PostgreSQL is not reached");
	}
}

bool round_keep_first(struct round *r, void (*next)(struct round *r))
{
	auto_json json_t *none = NULL;

	if (clock_steady_us() - r->kept_us < KEEP_US)
		return false;
	if (r->n_open > 0)
		return true; /* what is under way calls it again */
	none = json_array();
	round_mark(r, none, next);
	return true;
}

/* Ages are those of the store's clock. */
static void on_clock(const struct store_result *result, void *arg)
{
	struct round *r = arg;
	const int64_t skew_us = (int64_t)result->written_us - (int64_t)clock_wall_us();

	if (result->trouble)
		round_fail(r, (enum trouble)result->trouble, result->message);
	else if (skew_us > SKEW_MAX_US || skew_us < -SKEW_MAX_US)
		round_fail(r, TROUBLE_STORE_CLOCK,
		           "the clocks of the store and of this node differ by more than an hour: "
		           "how old an object is is not known");
	if (round_goes_on(r))
		round_read_rows(r);
}

static void begin(struct collect *c)
{
	struct round *r = xnew0(struct round);

	r->collect = c;
	r->list_fd = -1;
	for (size_t i = 0; i < COLLECT_SLOTS; i++)
		r->slots[i].fd = -1;
	r->n_compares = c->m->n_compares;
	r->kept_us = clock_steady_us();
	r->read_us = clock_wall_us();
	r->after = xstrdup("");
	c->round = r;
	round_do(r, &(struct store_job){.op = STORE_CHECK}, -1, on_clock, r);
}

static void on_duty(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	struct collect *c = m->collect;
	auto_json json_t *all = answer->rows ? rows_json(answer->rows, "answer") : NULL;
	const char *result = json_string_value(json_object_get(all, "result"));
	json_t *figures = json_object_get(all, "figures"), *untold = json_object_get(all, "untold");

	c->is_asking = false;
	if (!answer->rows)
		member_on_work_done(answer, arg);
	if (json_object_size(figures) > 0) {
		json_decref(c->figures);
		c->figures = json_incref(figures);
	}
	json_decref(c->untold);
	c->untold = json_is_array(untold) ? json_incref(untold) : NULL;
	if (result && strcmp(result, "ok") == 0 && !c->round)
		begin(c);
}

static void on_look(struct loop *loop, void *arg)
{
	struct collect *c = arg;
	char epoch[24];
	const char *const more[] = {epoch, DUTY};

	(void)loop;
	loop_timer_set_in(c->timer, MIN(LOOK_US, c->every_us));
	if (c->round || c->is_asking || c->m->state != FENCE_HELD)
		return;
	(void)snprintf(epoch, sizeof(epoch), "%" PRIu64, c->m->fence.epoch);
	if (member_call(c->m, c->m->work,
	                "SELECT cluster.take_duty($1::int, $2, $3::bigint, $4) AS answer", more,
	                ARRAY_SIZE(more), on_duty) == 0)
		c->is_asking = true;
}

/* What this node has. */

struct telling {
	const struct collect *collect;
	uint32_t seq;
};

static void on_told(const struct database_answer *answer, void *arg)
{
	const struct telling t = *(struct telling *)arg;
	auto_json json_t *all = answer->rows ? rows_json(answer->rows, "answer") : NULL;

	free(arg);
	if (!all) {
		gateway_link_refuse(t.collect->m->link, t.seq, "unavailable",
		                    answer->rows ? "the database has answered with another shape"
		                                 : answer->message);
		return;
	}
	if (t.collect->figures)
		(void)json_object_set(all, "figures", t.collect->figures);
	gateway_link_answer(t.collect->m->link, t.seq, all);
}

void collect_tell(const struct collect *c, uint32_t seq, const json_t *call)
{
	const struct member *m = c->m;
	const json_int_t n_compares = json_integer_value(json_object_get(call, "n_compares"));
	char epoch[24];
	const char *const params[] = {m->node_text, m->config.node ? m->config.node->secret : "",
	                              epoch, m->server};
	struct telling *t;

	if (!m->work || n_compares != (json_int_t)m->n_compares || m->is_count_due) {
		gateway_link_refuse(m->link, seq, "unavailable",
		                    "the database was started anew meanwhile");
		return;
	}
	t = xnew0(struct telling);
	*t = (struct telling){.collect = c, .seq = seq};
	(void)snprintf(epoch, sizeof(epoch), "%" PRIu64, m->fence.epoch);
	if (database_call(m->work,
	                  "SELECT cluster.tell_objects($1::int, $2, $3::bigint, $4) AS answer",
	                  params, ARRAY_SIZE(params), on_told, t) < 0) {
		free(t);
		gateway_link_refuse(m->link, seq, "unavailable", "PostgreSQL is not reached");
	}
}

json_t *collect_status(const struct collect *c)
{
	json_t *all = c->figures ? json_deep_copy(c->figures) : json_object();

	(void)json_object_set_new(all, "state",
	                          json_string(c->round                         ? "working"
	                                      : !c->every_us                   ? "off"
	                                      : json_array_size(c->untold) > 0 ? "untold"
	                                                                       : "resting"));
	if (json_array_size(c->untold) > 0)
		(void)json_object_set(all, "untold", c->untold);
	return all;
}

struct collect *collect_new(struct member *m, uint64_t every_us, unsigned most_percent)
{
	struct collect *c = xnew0(struct collect);

	*c = (struct collect){.m = m, .every_us = every_us, .most_percent = most_percent};
	c->timer = loop_timer_new(m->config.loop, on_look, c);
	if (every_us && m->config.node && m->config.store && m->config.wrapping_key)
		loop_timer_set_in(c->timer, MIN(LOOK_US, every_us));
	else
		c->every_us = 0;
	return c;
}
