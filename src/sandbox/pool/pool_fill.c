// SPDX-License-Identifier: Apache-2.0
/*
 * When spares are made, and for whom.
 *
 * When: running creates come first. A fill starts only while its project has no create under way,
 * at most FILLS_MAX at once, and a moment after the claim that made it necessary, so that it does
 * not compete with the first call in the claimed sandbox. Failed fills wait twice as long each
 * time. The broker is told which fills nobody waits for: those that start while half of the spares
 * are there.
 *
 * For whom: each claim is owed a fill, and the fill is charged to the claim's project. While
 * several projects claim, none may be owed more than an equal part of the ready and owed spares. So
 * a burst of one project leaves the others their part, and goes on without spares. Spares of a
 * reservation are made after all of these, and only its project gets them.
 */
#include "sandbox/pool/pool_demand.h"

#include "base/log.h"
#include "base/units.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/find.h"
#include "sandbox/pool/pool_reservation.h"
#include "sandbox/storage/template.h"

#define FILLS_MAX  2
#define AGAIN_MOST 64
#define CLAIMS_US  (60 * SECOND_US) /* for so long a project counts that has claimed */

void pool_end_surplus(struct pool *p)
{
	list_for_each (&p->spares, struct spare, spare, link)
		if (spare->demand)
			spare->demand->surplus = 0;
	list_for_each (&p->spares, struct spare, spare, link)
		if (spare->demand && spare_is_of_use(spare) && spare->is_ready)
			spare->demand->surplus++;
	list_for_each (&p->spares, struct spare, spare, link) {
		struct demand *demand = spare->demand;

		if (!spare->is_ready || spare->is_seed || !spare_is_of_use(spare))
			continue;
		if (demand && id_has_own_tag(spare->s->id) && demand->surplus <= demand->wanted)
			continue;
		if (demand)
			demand->surplus--;
		sandbox_end(spare->s, END_DELETED, NULL, "it was not needed");
	}
}

static size_t count_filling(const struct pool *p)
{
	return pool_count(p, NULL, false) - pool_count(p, NULL, true);
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

void pool_back_off(struct pool *p, const struct err *err)
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
				pool_back_off(p, &err);
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
			pool_back_off(p, &err);
			return;
		}
	}
}

void pool_fill_up(struct pool *p)
{
	uint64_t from_us = MAX(p->not_before_us, p->quiet_until_us);

	if (fleet_check_disk(p->fleet, NULL) < 0)
		return; /* called again when the disk has room */
	if (loop_now_us(p->loop) < from_us)
		loop_timer_set(p->soon, from_us);
	else if (fill_demands(p))
		fill_reservations(p);
}

struct spare *pool_claim(struct pool *p, struct share *share, const struct demand *demand,
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
