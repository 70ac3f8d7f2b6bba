// SPDX-License-Identifier: Apache-2.0
#include "member/objects/objects_check.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"

#include <stdio.h>

#define PERIOD_US (60 * SECOND_US)
#define AGAIN_US  (5 * SECOND_US) /* while something is wrong */

struct objects_check {
	struct loop *loop;
	struct store_pool *pool;
	const char *place; /* borrowed */
	struct loop_timer *timer;
	bool is_keyless; /* this node has not got the keys of objects */
	enum trouble trouble;
	char message[200];
	uint64_t asked_us, checked_us, took_us;
};

static void on_checked(const struct store_result *r, void *arg)
{
	struct objects_check *c = arg;
	const bool is_keyless = !r->trouble && c->is_keyless;
	const enum trouble trouble = is_keyless ? TROUBLE_STORE_KEYLESS : (enum trouble)r->trouble;
	const char *message =
		is_keyless ? "the store works, and this node has no keys for it" : r->message;

	if (trouble != c->trouble)
		log_write(trouble ? LOG_WARN : LOG_INFO, "cluster.objects",
		          "code='%s' message='%s' hint='%s'", trouble_code(trouble), message,
		          trouble_hint(trouble));
	c->trouble = trouble;
	(void)snprintf(c->message, sizeof(c->message), "%s", message);
	c->checked_us = clock_steady_us();
	c->took_us = c->checked_us - c->asked_us;
	if (store_pool_workers(c->pool) == 0)
		loop_stop(c->loop); /* the launcher starts another member, with workers */
	loop_timer_set_in(c->timer, trouble ? AGAIN_US : PERIOD_US);
}

static void on_time(struct loop *loop, void *arg)
{
	struct objects_check *c = arg;

	(void)loop;
	c->asked_us = clock_steady_us();
	store_pool_do(c->pool, &(struct store_job){.op = STORE_CHECK}, -1, on_checked, c);
}

struct objects_check *objects_check_new(struct loop *loop, struct store_pool *pool,
                                        const char *place, bool is_keyless)
{
	struct objects_check *c = xnew0(struct objects_check);

	*c = (struct objects_check){
		.loop = loop, .pool = pool, .place = place, .is_keyless = is_keyless};
	c->timer = loop_timer_new(loop, on_time, c);
	loop_timer_set_in(c->timer, 0);
	return c;
}

json_t *objects_check_status(const struct objects_check *c)
{
	json_t *all = json_pack("{ss ss sI}", "place", c->place, "state",
	                        !c->checked_us ? "starting"
	                        : c->trouble   ? "failing"
	                                       : "ok",
	                        "workers", (json_int_t)store_pool_workers(c->pool));

	if (c->checked_us) {
		const uint64_t now_us = clock_steady_us();

		(void)json_object_set_new(
			all, "checked_ms_ago",
			json_integer((json_int_t)((now_us - c->checked_us) / 1000)));
		(void)json_object_set_new(all, "took_us", json_integer((json_int_t)c->took_us));
	}
	if (c->trouble)
		(void)json_object_set_new(all, "problem",
		                          json_pack("{ss ss ss}", "code", trouble_code(c->trouble),
		                                    "message", c->message, "hint",
		                                    trouble_hint(c->trouble)));
	return all;
}
