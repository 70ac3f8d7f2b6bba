// SPDX-License-Identifier: Apache-2.0
/*
 * A spare is a sandbox whose create stops before its last step: the broker has made it, its agent
 * has answered, its interpreters have started; only an owner is missing. So taking one costs a row
 * in the store, and whatever ends a create (a dead agent, a broken link) ends a spare in the same
 * way. If the gateway dies, its spares have no row, and the next start deletes sandboxes without a
 * row.
 *
 *	filling --> ready --> taken
 *	    +---------+--> ending --> (freed)
 *
 * pool_demand.c decides how many there are; pool_reservation.c, how many of those that a project
 * has announced; pool_fill.c, when they are made and for whom. pool_spare.c has the life of one.
 */
#include "sandbox/pool/pool_demand.h"

#include "base/units.h"
#include "sandbox/code/interpreter.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/find.h"
#include "sandbox/pool/pool_reservation.h"

#include <string.h>

#define SHORT_PART 2 /* of the spares that are wanted; below it they are short */

/* Half of the demand is forgotten in 44 s. */
static const struct pool_timing usual = {
	.pause_us = 20 * MILLISECOND_US,
	.beat_us = 1 * SECOND_US,
	.again_us = 1 * SECOND_US,
};

DEFINE_FREEP(struct pool, pool_free)

size_t pool_count(const struct pool *p, const struct demand *demand, bool only_ready)
{
	size_t n = 0;

	list_for_each (&p->spares, struct spare, spare, link)
		n += spare_is_of_use(spare) && !spare->is_seed &&
		     (!demand || spare->demand == demand) && (spare->is_ready || !only_ready);
	return n;
}

static void on_soon(struct loop *loop, void *arg)
{
	struct pool *p = arg;

	(void)loop;
	if (!p->is_open)
		return;
	demands_look(p);
	pool_end_surplus(p);
	pool_fill_up(p);
}

void pool_look(struct pool *p)
{
	if (p->is_open)
		loop_timer_set_in(p->soon, 0);
}

static void on_beat(struct loop *loop, void *arg)
{
	struct pool *p = arg;

	(void)loop;
	if (!demands_fade(p))
		loop_timer_set_in(p->beat, p->timing.beat_us);
	pool_look(p);
}

static struct spare *find_ready(struct pool *p, const struct demand *demand)
{
	list_for_each (&p->spares, struct spare, spare, link)
		if (spare_is_of_use(spare) && spare->demand == demand && spare->is_ready &&
		    id_has_own_tag(spare->s->id) && link_is_healthy(spare->s->link))
			return spare;
	return NULL;
}

struct share *pool_share(const struct spare *spare)
{
	return spare->share;
}

bool pool_is_short(const struct spare *spare)
{
	const struct demand *demand = spare->demand;

	return demand && !demand->reservation &&
	       pool_count(spare->pool, demand, true) * SHORT_PART < demand->wanted;
}

static struct spare *offer_learnt(struct pool *p, const struct spare_kind *of)
{
	const struct demand_kind kind = demand_kind_of(of);
	struct demand *demand = demand_find(p, &kind);
	struct spare *spare = demand ? find_ready(p, demand) : NULL;

	if (!demand)
		return NULL;
	demand_claim(p, demand);
	if (!spare && of->has_door) { /* its door is then opened while its owner waits */
		struct demand *plain = demand_without_door(p, demand);

		spare = plain ? find_ready(p, plain) : NULL;
		demand = spare ? plain : demand;
	}
	if (!loop_timer_is_set(p->beat))
		loop_timer_set_in(p->beat, p->timing.beat_us);
	return pool_claim(p, of->share, demand, spare);
}

/* The project has reserved it, so nobody's part is asked for; pool_take() counts it. */
static struct spare *offer_reserved(struct pool *p, struct reservation *r)
{
	struct spare *spare = find_ready(p, reservation_demand(r));

	if (spare)
		p->quiet_until_us = loop_now_us(p->loop) + p->timing.pause_us;
	else
		reservation_count(r);
	return spare;
}

struct sandbox *pool_offer(struct pool *p, const struct spare_kind *kind)
{
	struct reservation *r = p->is_open ? reservation_of(p, kind) : NULL;
	struct spare *spare = r ? offer_reserved(p, r) : NULL;

	if (!p->is_open)
		return NULL;
	if (!spare)
		spare = offer_learnt(p, kind);
	pool_look(p);
	p->misses += !spare;
	return spare ? spare->s : NULL;
}

void pool_take(struct sandbox *s)
{
	struct demand *demand = s->spare->demand;

	s->spare->pool->hits++;
	(void)spare_release(s->spare);
	if (demand && demand->reservation)
		reservation_count(demand->reservation);
}

struct sandbox *pool_find(struct pool *p, const char *id)
{
	list_for_each (&p->spares, struct spare, spare, link)
		if (strcmp(spare->s->id, id) == 0)
			return spare->s;
	return NULL;
}

static void tell_closed(struct loop *loop, void *arg)
{
	struct pool *p = arg;
	loop_fn fn = take_ptr(p->closed);

	if (fn)
		fn(loop, p->closed_arg);
}

void pool_on_gone(struct sandbox *s)
{
	struct pool *p = s->spare->pool;

	sandbox_free_later(spare_release(s->spare));
	if (!p->is_open && list_empty(&p->spares))
		loop_defer(p->loop, tell_closed, p);
	pool_look(p);
}

void pool_figures(const struct pool *p, struct pool_figures *ret)
{
	*ret = (struct pool_figures){.ready = pool_count(p, NULL, true),
	                             .hits = p->hits,
	                             .misses = p->misses,
	                             .failures = p->n_failures};
	list_for_each (&p->demands, const struct demand, demand, link)
		ret->target += demand->wanted;
	ret->target += reservations_wanted(p);
	list_for_each (&p->spares, const struct spare, spare, link)
		ret->ready_vms += spare_is_of_use(spare) && spare->is_ready && !spare->is_seed &&
		                  engine_traits(spare->s->engine)->has_own_kernel;
}

int pool_new(struct fleet *fleet, struct pool **ret, struct err *err)
{
	auto_call(pool_freep) struct pool *p = xnew0(struct pool);
	const struct fleet_config *c = &fleet->config;

	p->fleet = fleet;
	p->loop = c->loop;
	p->timing = c->pool_timing ? *c->pool_timing : usual;
	list_init(&p->spares);
	list_init(&p->claimers);
	p->soon = loop_timer_new(p->loop, on_soon, p);
	p->beat = loop_timer_new(p->loop, on_beat, p);
	demands_init(p);
	reservations_init(p);
	for (char **name = c->pool_languages; name && *name; name++) {
		const struct language *language;
		int r = language_check(*name, "pool.languages", &language, err);

		if (r < 0)
			return r;
		if (p->n_languages < LANGUAGES_MAX)
			p->languages[p->n_languages++] = language;
	}
	*ret = take_ptr(p);
	return 0;
}

void pool_open(struct pool *p)
{
	p->is_open = p->fleet->config.pool_max > 0;
	pool_look(p);
}

void pool_close(struct pool *p, loop_fn done, void *arg)
{
	p->is_open = false;
	p->closed = done;
	p->closed_arg = arg;
	list_for_each (&p->spares, struct spare, spare, link)
		sandbox_end(spare->s, END_DELETED, NULL, "the daemon stops");
	if (list_empty(&p->spares))
		loop_defer(p->loop, tell_closed, p);
}

static void free_pool(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	list_for_each (&p->spares, struct spare, spare, link)
		sandbox_free(spare_release(spare));
	list_for_each (&p->claimers, struct claimer, c, link)
		free(c);
	reservations_done(p);
	demands_done(p);
	loop_timer_free(p->soon);
	loop_timer_free(p->beat);
	p->closed = NULL;
	loop_defer(p->loop, free_pool, p); /* this turn may have a call for it */
}
