// SPDX-License-Identifier: Apache-2.0
/*
 * A demand that the pool learns from claims comes too late for who starts 256 rollouts at once. So
 * a project may announce its creates: a reservation has a demand of its own, whose spares only
 * creates of that project get. Each create that would fit counts down what is left, whether a spare
 * was ready or not. A reservation ends when nothing is left, when its time is over, or when it is
 * removed; its unused spares end with it.
 *
 * How many spares it has at a moment is its target:
 *
 *	what is left to come, but at most
 *	what the quotas of its project and key leave beside all that this project has ahead
 *	its part of pool.reserve and pool.reserve_memory
 *	what sandboxes and the pool's other spares leave of sandboxes_max
 *
 * The room is given out one by one to the projects in turns, so each has an equal part, and what
 * one does not want is the others'. When the room becomes less, the spares that are too many end:
 * sandboxes come first, as with all spares. While spares are there, they are nobody's: they are
 * charged to nobody, and hold nothing of a quota.
 *
 * Everything is in memory: spares do not outlive the gateway either. Who asks again with the same
 * idempotency key after a restart has the reservation anew.
 */
#include "sandbox/pool/pool_reservation.h"

#include "base/clock.h"
#include "base/log.h"
#include "sandbox/lifecycle/create_wishes.h"
#include "sandbox/model/find.h"
#include "sandbox/model/idempotency.h"
#include "sandbox/model/limits_json.h"
#include "sandbox/pool/warm_copy.h"
#include "sandbox/storage/template.h"
#include "sandbox/usage/account.h"

#include <inttypes.h>
#include <string.h>

#define MEMORY_PART 4 /* of the host's memory, where the settings name no other bound */

/* What keeps a target below what is left to come. */
enum bound {
	BOUND_NONE,
	BOUND_QUOTA,
	BOUND_SANDBOXES,
	BOUND_RESERVE,
	BOUND_MEMORY,
	BOUND_DISK,
	BOUND_TEMPLATE,
	BOUND_WARM_COPY,
};

static const char *const bound_names[] = {
	[BOUND_NONE] = NULL,
	[BOUND_QUOTA] = "quota",
	[BOUND_SANDBOXES] = "sandboxes_max",
	[BOUND_RESERVE] = "pool.reserve",
	[BOUND_MEMORY] = "pool.reserve_memory",
	[BOUND_DISK] = "host_disk",
	[BOUND_TEMPLATE] = "template",
	[BOUND_WARM_COPY] = "warm_copy",
};

struct reservation {
	struct list link; /* in order of creation */
	struct pool *pool;
	struct demand demand; /* `wanted` is its target */
	char id[ID_SIZE], project_id[ID_SIZE], key_id[ID_SIZE];
	struct share *share;
	uint64_t count, left;
	uint64_t until_us;               /* steady */
	uint64_t created_us, expires_us; /* wall clock */
	enum bound bound;
};

const char *reservation_id(const struct reservation *r)
{
	return r->id;
}

struct demand *reservation_demand(struct reservation *r)
{
	return &r->demand;
}

static void emit(const struct reservation *r, enum event_type type, const char *why)
{
	const struct fleet_config *c = &r->pool->fleet->config;
	struct event e;
	struct json_writer *w;

	if (!c->events)
		return;
	w = event_begin(&e, c->events, type, r->project_id, NULL);
	json_put_str(w, "id", r->id);
	json_put_u64(w, "count", r->count);
	json_put_u64(w, "left", r->left);
	if (why)
		json_put_str(w, "why", why);
	event_end(&e);
}

static void set_timer(struct pool *p)
{
	uint64_t next_us = UINT64_MAX;

	list_for_each (&p->reservations, const struct reservation, r, link)
		next_us = MIN(next_us, r->until_us);
	loop_timer_set(p->expiry, next_us);
}

static void forget(struct reservation *r)
{
	demand_clear(r->pool, &r->demand);
	list_remove(&r->link);
	free(r);
}

static void end(struct reservation *r, const char *why)
{
	struct pool *p = r->pool;

	log_info("pool.released", "id=%s left=%" PRIu64 " why='%s'", r->id, r->left, why);
	emit(r, EVENT_POOL_RELEASED, why);
	idempotency_drop(p->fleet, r->id);
	forget(r);
	set_timer(p);
	pool_look(p);
}

void reservation_remove(struct reservation *r)
{
	end(r, "removed");
}

void reservation_count(struct reservation *r)
{
	r->left--;
	if (r->left == 0)
		end(r, "used");
}

static void on_expiry(struct loop *loop, void *arg)
{
	struct pool *p = arg;
	const uint64_t now = loop_now_us(loop);

	list_for_each (&p->reservations, struct reservation, r, link)
		if (r->until_us <= now)
			end(r, "expired");
	set_timer(p);
}

void reservations_remove_all(struct fleet *fleet, const char *project_id)
{
	list_for_each (&fleet->pool->reservations, struct reservation, r, link)
		if (strcmp(r->project_id, project_id) == 0)
			end(r, "removed");
}

/* What the settings and the host have for all reservations together. */

static uint64_t memory_for_all(const struct pool *p)
{
	const uint64_t set = p->fleet->config.pool_reserve_bytes;

	return set ? set : p->fleet->probe.probe.memory_bytes / MEMORY_PART;
}

struct room {
	size_t n;
	enum bound of; /* what it is less than wanted by */
	uint64_t bytes;
};

struct turn { /* of a project */
	const char *project_id;
	struct quota_held held; /* by what it has ahead */
	bool is_done;
};

static enum bound bound_of(const struct pool *p, const struct reservation *r)
{
	if (demand_can_fill(p, &r->demand))
		return BOUND_NONE;
	return template_find_id(p->fleet, r->demand.template_id) ? BOUND_WARM_COPY : BOUND_TEMPLATE;
}

/* One spare more, if nothing is in the way. */
static bool widen(struct reservation *r, struct room *room, struct turn *turn)
{
	const struct pool *p = r->pool;
	const uint64_t each = p->costs[r->demand.engine].bytes;

	if (r->demand.wanted == r->left || r->bound != BOUND_NONE)
		return false;
	if (room->n == 0)
		r->bound = room->of;
	else if (room->bytes < each)
		r->bound = BOUND_MEMORY;
	else if (!account_has_room(p->fleet, r->project_id, r->key_id, &r->demand.limits,
	                           &turn->held))
		r->bound = BOUND_QUOTA;
	if (r->bound != BOUND_NONE)
		return false;
	r->demand.wanted++;
	room->n--;
	room->bytes -= each;
	return true;
}

static bool widen_project(struct pool *p, struct room *room, struct turn *turn)
{
	list_for_each (&p->reservations, struct reservation, r, link)
		if (strcmp(r->project_id, turn->project_id) == 0 && widen(r, room, turn))
			return true;
	turn->is_done = true;
	return false;
}

static size_t list_turns(const struct pool *p, struct turn ret[RESERVATIONS_MAX])
{
	size_t n = 0;

	list_for_each (&p->reservations, const struct reservation, r, link) {
		size_t i = 0;

		while (i < n && strcmp(ret[i].project_id, r->project_id) != 0)
			i++;
		if (i == n)
			ret[n++] = (struct turn){.project_id = r->project_id};
	}
	return n;
}

void reservations_look(struct pool *p, size_t room_left)
{
	const size_t most = p->fleet->config.pool_reserve_max;
	const bool has_disk = fleet_check_disk(p->fleet, NULL) == 0;
	struct turn turns[RESERVATIONS_MAX];
	const size_t n = list_turns(p, turns);
	struct room room = {.n = MIN(room_left, most),
	                    .of = room_left < most ? BOUND_SANDBOXES : BOUND_RESERVE,
	                    .bytes = memory_for_all(p)};
	bool is_moving = n > 0;

	list_for_each (&p->reservations, struct reservation, r, link) {
		r->demand.wanted = 0;
		r->bound = bound_of(p, r);
		if (r->bound == BOUND_WARM_COPY)
			warm_copy_make(p->fleet, r->demand.engine,
			               template_find_id(p->fleet, r->demand.template_id),
			               &r->demand.limits);
	}
	while (is_moving) {
		is_moving = false;
		for (size_t i = 0; i < n; i++)
			is_moving |= !turns[i].is_done && widen_project(p, &room, &turns[i]);
	}
	list_for_each (&p->reservations, struct reservation, r, link)
		if (r->bound == BOUND_NONE && !has_disk) /* fills wait for it */
			r->bound = BOUND_DISK;
}

size_t reservations_wanted(const struct pool *p)
{
	size_t n = 0;

	list_for_each (&p->reservations, const struct reservation, r, link)
		n += r->demand.wanted;
	return n;
}

struct reservation *reservation_of(struct pool *p, const struct spare_kind *kind)
{
	const struct demand_kind of = demand_kind_of(kind);

	list_for_each (&p->reservations, struct reservation, r, link)
		if (strcmp(r->project_id, kind->project_id) == 0 &&
		    demand_is_of_kind(&r->demand, &of))
			return r;
	return NULL;
}

struct demand *reservations_next(struct pool *p, struct share **ret_share)
{
	struct reservation *next = NULL;
	size_t least = SIZE_MAX;

	list_for_each (&p->reservations, struct reservation, r, link) {
		const size_t n = pool_count(p, &r->demand, /* only_ready= */ false);

		if (n >= r->demand.wanted || n >= least || pool_has_creates(p, r->share))
			continue;
		next = r;
		least = n;
	}
	if (!next)
		return NULL;
	*ret_share = next->share;
	return &next->demand;
}

static int check_room(const struct pool *p, const char *project_id, struct err *err)
{
	size_t n = 0, mine = 0;

	list_for_each (&p->reservations, const struct reservation, r, link) {
		n++;
		mine += strcmp(r->project_id, project_id) == 0;
	}
	if (mine >= RESERVATIONS_OF_PROJECT_MAX)
		(void)err_set(err, ERR_LIMIT, 0,
		              "the project has %zu reservations, which is the limit", mine);
	else if (n >= RESERVATIONS_MAX)
		(void)err_set(err, ERR_LIMIT, 0, "there are %zu reservations, which is the limit",
		              n);
	else
		return 0;
	return err_hint(err, "remove one, or wait until one has expired");
}

static int check_settings(const struct pool *p, struct err *err)
{
	if (p->is_open && p->fleet->config.pool_reserve_max > 0)
		return 0;
	if (!p->fleet->is_ready || p->fleet->is_draining)
		return err_set(err, ERR_UNAVAILABLE, 0, "the daemon is %s",
		               p->fleet->is_ready ? "stopping" : "starting");
	(void)err_set(err, ERR_UNSUPPORTED, 0, "this daemon makes no sandboxes ahead");
	return err_hint(err, "the operator has set pool.max or pool.reserve to 0");
}

/* The wishes' strings and structs live in the fleet, but for the limits, which are copied. */
static int read_kind(struct fleet *fleet, const struct reservation_ask *ask, struct wishes *w,
                     struct spare_kind *ret, struct err *err)
{
	const char *bar;
	int r = wishes_read(fleet, ask->project_id, ask->spec, w, err);

	if (r == 0)
		r = account_check_possible(fleet, ask->project_id, ask->spec->key_id, &w->limits,
		                           err);
	if (r < 0)
		return r;
	bar = wishes_spare_bar(ask->spec, w);
	if (bar) {
		(void)err_field(err, bar, "is not for what is made ahead");
		return err_hint(err, "creates with this field never start from the pool");
	}
	*ret = wishes_spare(fleet, ask->project_id, ask->spec, w);
	return 0;
}

int reservation_new(struct fleet *fleet, const struct reservation_ask *ask,
                    struct reservation **ret, struct err *err)
{
	auto_call(wishes_done) struct wishes w = {0};
	struct pool *p = fleet->pool;
	struct spare_kind kind;
	struct reservation *made;
	int r = check_settings(p, err);

	if (r == 0)
		r = read_kind(fleet, ask, &w, &kind, err);
	if (r == 0)
		r = check_room(p, ask->project_id, err);
	if (r < 0)
		return r;
	made = xnew0(struct reservation);
	*made = (struct reservation){
		.pool = p,
		.share = kind.share,
		.count = ask->count,
		.left = ask->count,
		.until_us = loop_now_us(p->loop) + ask->ms * 1000,
		.created_us = clock_wall_us(),
	};
	made->expires_us = made->created_us + ask->ms * 1000;
	demand_set(&made->demand, &kind);
	made->demand.reservation = made;
	if (ask->id)
		(void)snprintf(made->id, sizeof(made->id), "%s", ask->id);
	else
		id_make_tagged(made->id, "rs");
	(void)snprintf(made->project_id, sizeof(made->project_id), "%s", ask->project_id);
	(void)snprintf(made->key_id, sizeof(made->key_id), "%s",
	               ask->spec->key_id ? ask->spec->key_id : "");
	list_append(&p->reservations, &made->link);
	log_info("pool.reserved", "id=%s count=%" PRIu64, made->id, made->count);
	emit(made, EVENT_POOL_RESERVED, NULL);
	set_timer(p);
	demands_look(p); /* so that the reply tells its target */
	pool_look(p);
	*ret = made;
	return 0;
}

struct reservation *reservation_find(const struct fleet *fleet, const char *project_id,
                                     const char *id)
{
	list_for_each (&fleet->pool->reservations, struct reservation, r, link)
		if (strcmp(r->id, id) == 0 && strcmp(r->project_id, project_id) == 0)
			return r;
	return NULL;
}

void reservations_each(const struct fleet *fleet, const char *project_id,
                       void (*fn)(const struct reservation *r, void *arg), void *arg)
{
	list_for_each (&fleet->pool->reservations, const struct reservation, r, link)
		if (strcmp(r->project_id, project_id) == 0)
			fn(r, arg);
}

void reservation_put_fields(const struct reservation *r, struct json_writer *w)
{
	const struct template *t = template_find_id(r->pool->fleet, r->demand.template_id);

	json_put_str(w, "id", r->id);
	json_put_u64(w, "count", r->count);
	json_put_u64(w, "left", r->left);
	json_put_u64(w, "target", r->demand.wanted);
	json_put_u64(w, "ready", pool_count(r->pool, &r->demand, /* only_ready= */ true));
	json_put_str(w, "limited_by", bound_names[r->bound]);
	json_put_str(w, "template", t ? template_name(t) : TEMPLATE_HOST);
	json_put_str(w, "engine", engine_name(r->demand.engine));
	limits_to_json(&r->demand.limits, NULL, w);
	json_put_u64(w, "created_us", r->created_us);
	json_put_u64(w, "expires_us", r->expires_us);
}

void reservation_to_json(const struct reservation *r, struct json_writer *w, const char *name)
{
	json_open_object(w, name);
	reservation_put_fields(r, w);
	json_close_object(w);
}

void reservations_init(struct pool *p)
{
	list_init(&p->reservations);
	p->expiry = loop_timer_new(p->loop, on_expiry, p);
}

void reservations_done(struct pool *p)
{
	list_for_each (&p->reservations, struct reservation, r, link)
		forget(r);
	loop_timer_free(p->expiry);
}
