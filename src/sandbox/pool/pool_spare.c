// SPDX-License-Identifier: Apache-2.0
/*
 * A spare from its create to its end: its door is opened, its interpreters start, and what it has
 * used by then is measured. A seed is saved as a warm copy (warm_copy.h) instead.
 */
#include "sandbox/pool/pool_demand.h"

#include "base/log.h"
#include "base/units.h"
#include "sandbox/code/contexts.h"
#include "sandbox/code/interpreter.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/network/network.h"
#include "sandbox/pool/warm_copy.h"
#include "sandbox/pool/warm_up.h"
#include "sandbox/usage/account.h"

#include <inttypes.h>
#include <string.h>

#define LEAST_BYTES ((uint64_t)1 << 20) /* what the kernel holds is not charged */

bool spare_is_of_use(const struct spare *spare)
{
	return spare->s->state == SANDBOX_CREATING;
}

struct sandbox *spare_release(struct spare *spare)
{
	struct sandbox *s = spare->s;

	broker_client_cancel(spare->pool->fleet->broker, spare->usage_tag);
	list_remove(&spare->link);
	s->spare = NULL;
	free(spare);
	return s;
}

static struct cost *cost_of(const struct spare *spare)
{
	return &spare->pool->costs[spare->s->engine];
}

static void get_ready(struct spare *spare)
{
	struct pool *p = spare->pool;
	struct cost *cost = cost_of(spare);
	uint64_t took_us = loop_now_us(p->loop) - spare->begun_us;

	spare->is_ready = true;
	p->n_failures = 0;
	cost->fill_us = MAX((3 * cost->fill_us + took_us) / 4, MILLISECOND_US);
	log_info("pool.ready", "id=%s took_us=%" PRIu64, spare->s->id, took_us);
	pool_look(p);
}

static void on_usage(const struct msg_reply *reply, void *arg)
{
	struct spare *spare = arg;

	spare->usage_tag = 0;
	if (reply->err.code == ERR_NONE) {
		spare->s->account->base_usage = reply->usage;
		spare->s->oom_kills = reply->usage.oom_kills;
		cost_of(spare)->bytes = MAX(reply->usage.memory_bytes, LEAST_BYTES);
	}
	get_ready(spare);
}

/* Measures what it has used so far: nobody is charged for that, and it predicts the next one's
 * use. */
static void measure(struct spare *spare)
{
	struct msg_request req = {.op = MSG_USAGE};

	memcpy(req.id, spare->s->id, sizeof(req.id));
	if (broker_client_ask(spare->pool->fleet->broker, &req, on_usage, spare, &spare->usage_tag,
	                      NULL) < 0)
		get_ready(spare);
}

int pool_seed(struct pool *p, uint32_t engine, const struct template *t,
              const struct guest_limits *limits, struct err *err)
{
	struct spare *seed;
	int r;

	list_for_each (&p->spares, const struct spare, other, link)
		if (other->is_seed)
			return 0; /* one after the other: it takes the host some seconds */
	if (!p->is_open)
		return 0;
	seed = xnew0(struct spare);
	*seed = (struct spare){.pool = p, .is_seed = true, .begun_us = loop_now_us(p->loop)};
	r = create_spare(p->fleet, t, limits, engine, seed, &seed->s, err);
	if (r < 0)
		free(seed);
	else
		list_append(&p->spares, &seed->link);
	return r;
}

/* It may have ended meanwhile. */
static void on_saved(void *arg)
{
	const struct fleet *fleet = arg;

	list_for_each (&fleet->pool->spares, struct spare, seed, link)
		if (seed->is_seed && seed->is_ready && spare_is_of_use(seed))
			sandbox_end(seed->s, END_DELETED, NULL, "it was copied");
}

static void save_seed(struct spare *seed)
{
	struct err err;

	seed->is_ready = true;
	if (warm_copy_take(seed->s, on_saved, seed->pool->fleet, &err) < 0) {
		warm_copy_on_seed_failed(seed->pool->fleet, &err);
		on_saved(seed->pool->fleet);
	}
}

static void warm(struct sandbox *s)
{
	struct pool *p = s->spare->pool;

	if (engine_traits(s->engine)->has_copies)
		warm_up_begin(s);
	for (size_t i = 0; i < p->n_languages; i++)
		if (!context_has_warm(s, p->languages[i])) /* as a copy has */
			context_warm(s, p->languages[i]);
	pool_on_warm(s);
}

static void on_door(struct sandbox *s, const struct err *err, void *arg)
{
	struct sandbox *self = arg;

	if (self->state != SANDBOX_CREATING)
		return;
	if (s)
		warm(s); /* its interpreters get the variables of one that has a door */
	else
		self->fleet->lifecycle->fail_create(self, err);
}

void pool_on_up(struct sandbox *s)
{
	const struct demand *demand = s->spare->demand;

	if (demand && demand->has_door)
		network_ahead(s, on_door, s);
	else
		warm(s);
}

void pool_on_warm(struct sandbox *s)
{
	struct spare *spare = s->spare;

	if (!spare_is_of_use(spare) || spare->is_ready || spare->usage_tag || s->warm_up ||
	    context_is_warming(s))
		return;
	if (spare->is_seed)
		save_seed(spare);
	else
		measure(spare);
}

void pool_on_failed(struct sandbox *s, const struct err *err)
{
	if (s->spare->is_seed)
		warm_copy_on_seed_failed(s->fleet, err);
	else
		pool_back_off(s->spare->pool, err);
}
