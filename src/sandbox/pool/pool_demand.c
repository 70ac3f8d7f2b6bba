// SPDX-License-Identifier: Apache-2.0
/*
 * Each engine, template and size that is asked for has a demand. If spares were refilled one by
 * one, `owed` would be how far the refills are behind the claims. The highest value of it in the
 * last minute or so is the number of spares that should have been there, and is the demand's
 * target. The default size has at least pool_min; another size is kept only while it is asked for
 * repeatedly. All together are bounded by pool_max, by pool_memory (as spares were measured to
 * use), and by the room that sandboxes leave: those come first, and a spare in their way is ended.
 *
 * Spares with a door, for creates with a policy, are a demand of their own. Once somebody has asked
 * for such a one of the default size, pool_min are kept of them too: who has a policy has it for
 * all of his sandboxes, and without a spare with a door a create takes ten times as long.
 *
 * Spares of vms are copies of one that was booted ahead (warm_copy.c). Without one to copy there
 * are no spares; for the default size one is made at once.
 */
#include "sandbox/pool/pool_demand.h"

#include "sandbox/model/create_rules.h"
#include "sandbox/pool/pool_reservation.h"
#include "sandbox/pool/warm_copy.h"
#include "sandbox/storage/guest_kernel.h"
#include "sandbox/storage/template.h"

#include <string.h>

#define FADING      64
#define DEMANDS_MAX 8
#define ONE         UINT64_C(1000) /* demand is in thousandths of a spare */
#define WORTH       (3 * ONE)      /* claims of another size, before it gets spares */

static void set_kind(struct demand *demand, const struct demand_kind *kind)
{
	demand->engine = kind->engine;
	(void)snprintf(demand->template_id, sizeof(demand->template_id), "%s", kind->template_id);
	demand->limits = *kind->limits;
	demand->has_door = kind->has_door;
}

struct demand_kind demand_kind_of(const struct spare_kind *kind)
{
	return (struct demand_kind){.engine = kind->engine,
	                            .template_id =
	                                    kind->template ? template_id(kind->template) : "",
	                            .limits = kind->limits,
	                            .has_door = kind->has_door};
}

void demand_set(struct demand *demand, const struct spare_kind *kind)
{
	const struct demand_kind of = demand_kind_of(kind);

	set_kind(demand, &of);
}

static struct demand *demand_new(struct pool *p, const struct demand_kind *kind)
{
	struct demand *demand = xnew0(struct demand);

	set_kind(demand, kind);
	list_append(&p->demands, &demand->link);
	p->n_demands++;
	return demand;
}

void demand_clear(struct pool *p, const struct demand *demand)
{
	list_for_each (&p->spares, struct spare, spare, link)
		if (spare->demand == demand)
			spare->demand = NULL;
}

static void demand_free(struct pool *p, struct demand *demand)
{
	demand_clear(p, demand);
	list_remove(&demand->link);
	p->n_demands--;
	free(demand);
}

/* There always is one. */
static struct demand *default_of(const struct pool *p)
{
	return list_entry(p->demands.next, struct demand, link);
}

static bool is_default(const struct pool *p, const struct demand *demand)
{
	return demand->link.prev == &p->demands;
}

static struct demand_kind kind_of(const struct demand *demand)
{
	return (struct demand_kind){.engine = demand->engine,
	                            .template_id = demand->template_id,
	                            .limits = &demand->limits,
	                            .has_door = demand->has_door};
}

bool demand_is_of_kind(const struct demand *demand, const struct demand_kind *kind)
{
	return demand->engine == kind->engine && demand->has_door == kind->has_door &&
	       limits_are_equal(&demand->limits, kind->limits) &&
	       strcmp(demand->template_id, kind->template_id) == 0;
}

static struct demand *find_known(const struct pool *p, const struct demand_kind *kind)
{
	list_for_each (&p->demands, struct demand, demand, link)
		if (demand_is_of_kind(demand, kind))
			return demand;
	return NULL;
}

static size_t least(const struct pool *p, const struct demand *demand)
{
	struct demand_kind of_default = kind_of(default_of(p));

	of_default.has_door = true;
	return is_default(p, demand) || demand_is_of_kind(demand, &of_default)
	               ? p->fleet->config.pool_min
	               : 0;
}

/* The default template or engine may have changed. */
static void set_default(struct pool *p)
{
	struct demand *demand = default_of(p);
	const struct template *t = template_default(p->fleet, "");
	const char *id = t ? template_id(t) : "";
	uint32_t engine;
	struct err err;

	if (engine_choose(p->fleet, NULL, NULL, 0, /* needs_base= */ !t, &engine, &err) < 0)
		engine = ENGINE_BASE;
	if (demand->engine == engine && strcmp(demand->template_id, id) == 0)
		return;
	demand_clear(p, demand);
	demand->engine = engine;
	(void)snprintf(demand->template_id, sizeof(demand->template_id), "%s", id);
}

bool demand_can_fill(const struct pool *p, const struct demand *demand)
{
	const struct template *t = template_find_id(p->fleet, demand->template_id);

	if (engine_traits(demand->engine)->has_copies)
		return t && warm_copy_has(p->fleet, template_image(t), &demand->limits);
	return t || demand->template_id[0] == '\0';
}

/* The wanted number, before any bound. */
static size_t wish(const struct pool *p, const struct demand *demand)
{
	const size_t n = (size_t)((demand->target + ONE - 1) / ONE);

	if (!demand_can_fill(p, demand))
		return 0;
	if (!is_default(p, demand) && demand->claims < WORTH)
		return least(p, demand);
	return MAX(n, least(p, demand));
}

static void set_wanted(struct pool *p)
{
	const struct fleet_config *c = &p->fleet->config;
	uint64_t bytes = c->pool_memory_bytes;
	size_t room =
		c->sandboxes_max > p->fleet->n_alive ? c->sandboxes_max - p->fleet->n_alive : 0;

	room = MIN(room, c->pool_max);
	list_for_each (&p->demands, struct demand, demand, link) {
		const uint64_t each = p->costs[demand->engine].bytes;

		demand->wanted = (size_t)MIN(MIN(wish(p, demand), room), bytes / each);
		room -= demand->wanted;
		bytes -= demand->wanted * each;
	}
}

/* What sandboxes and the demands leave of the host's room. */
static size_t room_left(const struct pool *p)
{
	const struct fleet *fleet = p->fleet;
	size_t n = fleet->n_alive;

	list_for_each (&p->demands, const struct demand, demand, link)
		n += demand->wanted;
	return fleet->config.sandboxes_max > n ? fleet->config.sandboxes_max - n : 0;
}

/* Boots a machine while nobody waits for it, and makes a warm copy of it. A copy from an earlier
 * start of the host proves nothing. */
static void try_engine(struct pool *p, const struct demand *demand)
{
	const struct template *t = template_find_id(p->fleet, demand->template_id);
	const uint32_t engine = engine_untried(p->fleet);

	if (!engine || !t || !guest_kernel_is_there(p->fleet) || p->has_tried)
		return;
	p->has_tried = true;
	warm_copy_drop_image(p->fleet, template_image(t));
	warm_copy_make(p->fleet, engine, t, &demand->limits);
}

/* Makes a copy, so that the first vm has one to start from. */
static void seed_default(struct pool *p)
{
	const struct demand *demand = default_of(p);

	try_engine(p, demand);

	if (engine_traits(demand->engine)->has_copies)
		warm_copy_make(p->fleet, demand->engine,
		               template_find_id(p->fleet, demand->template_id), &demand->limits);
}

static bool is_faded(const struct pool *p, const struct demand *demand)
{
	const size_t n = least(p, demand);

	return n > 0 || is_default(p, demand) ? demand->target <= n * ONE
	                                      : demand->claims < ONE / 2;
}

bool demands_fade(struct pool *p)
{
	bool is_quiet = true;

	list_for_each (&p->demands, struct demand, demand, link) {
		demand->target -= (demand->target + FADING - 1) / FADING;
		demand->claims -= (demand->claims + FADING - 1) / FADING;
		if (!is_faded(p, demand))
			is_quiet = false;
		else if (!is_default(p, demand) && least(p, demand) == 0)
			demand_free(p, demand);
	}
	return is_quiet;
}

void demands_look(struct pool *p)
{
	set_default(p);
	set_wanted(p);
	seed_default(p);
	reservations_look(p, room_left(p));
}

struct demand *demand_find(struct pool *p, const struct demand_kind *kind)
{
	struct demand *demand = find_known(p, kind);

	return demand || p->n_demands == DEMANDS_MAX ? demand : demand_new(p, kind);
}

struct demand *demand_without_door(struct pool *p, const struct demand *demand)
{
	struct demand_kind kind = kind_of(demand);

	kind.has_door = false;
	return find_known(p, &kind);
}

void demand_claim(struct pool *p, struct demand *demand)
{
	uint64_t now = loop_now_us(p->loop);
	uint64_t paid = (now - demand->owed_at_us) * ONE / p->costs[demand->engine].fill_us;

	demand->owed = (demand->owed > paid ? demand->owed - paid : 0) + ONE;
	demand->owed_at_us = now;
	demand->target = MAX(demand->target, MIN(demand->owed, p->fleet->config.pool_max * ONE));
	demand->claims += ONE;
}

void demands_init(struct pool *p)
{
	for (size_t i = 0; engines[i]; i++)
		p->costs[engines[i]->number] =
			(struct cost){.fill_us = engines[i]->traits.spare_us,
		                      .bytes = engines[i]->traits.spare_bytes};
	list_init(&p->demands);
	(void)demand_new(p, &(struct demand_kind){.engine = ENGINE_BASE,
	                                          .template_id = "",
	                                          .limits = &p->fleet->config.default_limits});
}

void demands_done(struct pool *p)
{
	list_for_each (&p->demands, struct demand, demand, link)
		demand_free(p, demand);
}
