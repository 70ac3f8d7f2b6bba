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
 * has announced.
 *
 * When: running creates come first. A fill starts only while its project has no create under way,
 * at most FILLS_MAX at once, and a moment after the claim that made it necessary, so that it does
 * not compete with the first call in the claimed sandbox. Failed fills wait twice as long each
 * time. The broker is told which fills nobody waits for: those that start while half of the spares
 * are there.
 *
 * For whom: each claim is owed a fill, and the fill is charged to the claim's project. While
 * several projects claim, none may be owed more than an equal part of the ready and owed spares. So
 * a burst of one project leaves the others their part, and continues without spares. Spares of a
 * reservation are made behind all of these, and given to its project alone.
 */
#include "sandbox/pool/pool.h"

#include "base/log.h"
#include "base/units.h"
#include "sandbox/code/contexts.h"
#include "sandbox/code/interpreter.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/find.h"
#include "sandbox/network/network.h"
#include "sandbox/pool/pool_demand.h"
#include "sandbox/pool/pool_reservation.h"
#include "sandbox/pool/warm_copy.h"
#include "sandbox/pool/warm_up.h"
#include "sandbox/storage/template.h"
#include "sandbox/usage/account.h"

#include <inttypes.h>
#include <string.h>

#define FILLS_MAX   2
#define AGAIN_MOST  64
#define SHORT_PART  2                   /* of the spares that are wanted; below it they are short */
#define CLAIMS_US   (60 * SECOND_US)    /* for so long a project counts that has claimed */
#define LEAST_BYTES ((uint64_t)1 << 20) /* what the kernel holds is not charged */

/* Half of the demand is forgotten in 44 s. */
static const struct pool_timing usual = {
	.pause_us = 20 * MILLISECOND_US,
	.beat_us = 1 * SECOND_US,
	.again_us = 1 * SECOND_US,
};

DEFINE_FREEP(struct pool, pool_free)

/* Ready, or still to become ready; not one that is ending. */
static bool is_of_use(const struct spare *spare)
{
	return spare->s->state == SANDBOX_CREATING;
}

size_t pool_count(const struct pool *p, const struct demand *demand, bool only_ready)
{
	size_t n = 0;

	list_for_each (&p->spares, struct spare, spare, link)
		n += is_of_use(spare) && !spare->is_seed && (!demand || spare->demand == demand) &&
		     (spare->is_ready || !only_ready);
	return n;
}

static size_t count_filling(const struct pool *p)
{
	return pool_count(p, NULL, false) - pool_count(p, NULL, true);
}

/* The oldest are ended first. */
static void end_surplus(struct pool *p)
{
	list_for_each (&p->spares, struct spare, spare, link)
		if (spare->demand)
			spare->demand->surplus = 0;
	list_for_each (&p->spares, struct spare, spare, link)
		if (spare->demand && is_of_use(spare) && spare->is_ready)
			spare->demand->surplus++;
	list_for_each (&p->spares, struct spare, spare, link) {
		struct demand *demand = spare->demand;

		if (!spare->is_ready || spare->is_seed || !is_of_use(spare))
			continue;
		if (demand && id_has_own_tag(spare->s->id) && demand->surplus <= demand->wanted)
			continue;
		if (demand)
			demand->surplus--;
		sandbox_end(spare->s, END_DELETED, NULL, "it was not needed");
	}
}

static struct claimer *claimer_of(struct pool *p, struct share *share)
{
	struct claimer *c;

	list_for_each (&p->claimers, struct claimer, known, link)
		if (known->share == share)
			return known;
	c = xnew0(struct claimer);
	c->share = share;
	list_append(&p->claimers, &c->link);
	return c;
}

/* Whether it may have one more of the ready spares. */
static bool is_within_part(const struct pool *p, const struct claimer *mine, size_t ready)
{
	uint64_t now = loop_now_us(p->loop);
	size_t n = 0, owed = 0;

	list_for_each (&p->claimers, const struct claimer, c, link) {
		if (c != mine && now - c->last_us > CLAIMS_US)
			continue;
		n++;
		owed += c->owed;
	}
	return n <= 1 || mine->owed * n < ready + owed;
}

bool pool_has_creates(const struct pool *p, const struct share *share)
{
	return (share ? share->n_creating : p->fleet->n_creating) > 0;
}

/* The project whose turn it is to have a spare made; NULL for none. A spare for no particular
 * project is made only when nothing else is to be done. */
static struct claimer *next_claimer(struct pool *p)
{
	bool is_owed = false;

	list_for_each (&p->claimers, struct claimer, c, link) {
		if (c->owed > 0 && !pool_has_creates(p, c->share))
			return c;
		is_owed |= c->owed > 0;
	}
	if (is_owed || p->fleet->n_creating > 0)
		return NULL;
	return claimer_of(p, shares_get(p->fleet->config.shares, ""));
}

static void pay(struct pool *p, struct claimer *c)
{
	c->owed -= c->owed > 0;
	list_remove(&c->link);
	list_append(&p->claimers, &c->link);
}

static int fill(struct pool *p, struct demand *demand, struct share *share, struct err *err)
{
	struct spare *spare = xnew0(struct spare);
	int r;

	*spare = (struct spare){
		.pool = p, .demand = demand, .share = share, .begun_us = loop_now_us(p->loop)};
	r = create_spare(p->fleet, template_find_id(p->fleet, demand->template_id), &demand->limits,
	                 demand->engine, spare, &spare->s, err);
	if (r < 0) {
		free(spare);
		return r;
	}
	list_append(&p->spares, &spare->link);
	return 0;
}

/* Logged once for a series of failures; creates start without a spare meanwhile. */
static void back_off(struct pool *p, const struct err *err)
{
	uint64_t now = loop_now_us(p->loop);
	uint64_t most_us = AGAIN_MOST * p->timing.again_us;
	bool is_first = p->again_us == 0 || now > p->not_before_us + most_us;

	if (is_first)
		log_warn("pool.failed", "error='%s'", err->message);
	p->n_failures++;
	p->again_us = is_first ? p->timing.again_us : MIN(2 * p->again_us, most_us);
	p->not_before_us = now + p->again_us;
	pool_look(p);
}

/* All wanted spares are there or being made: forgets what is owed. */
static void forgive(struct pool *p)
{
	list_for_each (&p->demands, struct demand, demand, link)
		if (pool_count(p, demand, false) < demand->wanted)
			return;
	list_for_each (&p->claimers, struct claimer, c, link)
		c->owed = 0;
}

/* False: one could not be begun. */
static bool fill_demands(struct pool *p)
{
	struct claimer *c = next_claimer(p);
	struct err err;

	if (!c)
		return true; /* called again when the creates end */
	list_for_each (&p->demands, struct demand, demand, link) {
		while (pool_count(p, demand, false) < demand->wanted &&
		       count_filling(p) < FILLS_MAX) {
			if (fill(p, demand, c->share, &err) < 0) {
				back_off(p, &err);
				return false;
			}
			pay(p, c);
			c = next_claimer(p);
			if (!c)
				return true;
		}
	}
	forgive(p);
	return true;
}

static void fill_reservations(struct pool *p)
{
	struct share *share;
	struct demand *demand;
	struct err err;

	while (count_filling(p) < FILLS_MAX && (demand = reservations_next(p, &share))) {
		if (fill(p, demand, share, &err) < 0) {
			back_off(p, &err);
			return;
		}
	}
}

static void fill_up(struct pool *p)
{
	uint64_t from_us = MAX(p->not_before_us, p->quiet_until_us);

	if (fleet_check_disk(p->fleet, NULL) < 0)
		return; /* called again when the disk has room */
	if (loop_now_us(p->loop) < from_us)
		loop_timer_set(p->soon, from_us);
	else if (fill_demands(p))
		fill_reservations(p);
}

static void on_soon(struct loop *loop, void *arg)
{
	struct pool *p = arg;

	(void)loop;
	if (!p->is_open)
		return;
	demands_look(p);
	end_surplus(p);
	fill_up(p);
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
		if (is_of_use(spare) && spare->demand == demand && spare->is_ready &&
		    id_has_own_tag(spare->s->id) && link_is_healthy(spare->s->link))
			return spare;
	return NULL;
}

static struct sandbox *release(struct spare *spare)
{
	struct sandbox *s = spare->s;

	broker_client_cancel(spare->pool->fleet->broker, spare->usage_tag);
	list_remove(&spare->link);
	s->spare = NULL;
	free(spare);
	return s;
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

/* Notes the claim. Returns the spare, or NULL if the project would have more than its part. */
static struct spare *claim(struct pool *p, struct share *share, const struct demand *demand,
                           struct spare *spare)
{
	struct claimer *c = claimer_of(p, share);
	const size_t ready = pool_count(p, demand, true);

	c->last_us = loop_now_us(p->loop);
	if (spare && !is_within_part(p, c, ready))
		spare = NULL;
	c->owed = MIN(c->owed + 1, (size_t)p->fleet->config.pool_max);
	if (ready <= 1)
		p->quiet_until_us = 0;
	else if (spare)
		p->quiet_until_us = loop_now_us(p->loop) + p->timing.pause_us;
	return spare;
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
	return claim(p, of->share, demand, spare);
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
	(void)release(s->spare);
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
		if (seed->is_seed && seed->is_ready && is_of_use(seed))
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

	if (!is_of_use(spare) || spare->is_ready || spare->usage_tag || s->warm_up ||
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
		back_off(s->spare->pool, err);
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

	sandbox_free_later(release(s->spare));
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
		ret->ready_vms += is_of_use(spare) && spare->is_ready && !spare->is_seed &&
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
		sandbox_free(release(spare));
	list_for_each (&p->claimers, struct claimer, c, link)
		free(c);
	reservations_done(p);
	demands_done(p);
	loop_timer_free(p->soon);
	loop_timer_free(p->beat);
	p->closed = NULL;
	loop_defer(p->loop, free_pool, p); /* this turn may have a call for it */
}
