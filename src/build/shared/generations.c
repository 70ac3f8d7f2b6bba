// SPDX-License-Identifier: Apache-2.0
#include "build/shared/generations.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "build/shared/shared_private.h"
#include "node/owned.h"
#include "sandbox/lifecycle/restorable.h"
#include "sandbox/snapshot/snapshot_shared.h"

#include <string.h>
#include <uthash.h>

#define LOOK_US   SECOND_US
#define AGAIN_US  (5 * SECOND_US) /* behind one that failed */
#define EVERY_MIN SECOND_US

struct generation { /* of a sandbox: the one under way, and what is known of the last */
	struct generations *all; /* NULL: this daemon ends */
	char sandbox_id[ID_SIZE], project_id[ID_SIZE];
	struct restorable_generation next; /* id "": none is under way */
	bool is_taking, is_telling, is_removed;
	uint64_t stamp, taken_us, not_before_us; /* steady */
	uint64_t next_stamp;
	char *record;
	struct shared_wait durable;
	bool is_seen; /* by this look: the sandbox is there */
	UT_hash_handle hh;
};

struct generations {
	struct builds *owner;
	struct generation *all;
	struct loop_timer *look;
	uint64_t every_us;
};

static struct fleet *fleet_of(const struct generations *all)
{
	return all->owner->config.fleet;
}

static struct sandbox *find(const struct generation *g)
{
	return sandbox_find(fleet_of(g->all), g->project_id, g->sandbox_id);
}

static void wipe(char **text)
{
	if (*text)
		explicit_bzero(*text, strlen(*text));
	free(take_ptr(*text));
}

static void generation_free(struct generation *g)
{
	wipe(&g->record);
	free(g);
}

static void on_removed(const struct err *err, void *arg)
{
	(void)arg;
	if (err) /* the row stays until the sandbox's project goes: it holds some objects */
		log_warn("sandbox.generation_not_removed", "error='%s'", err->message);
}

/* Here or elsewhere; what is durable goes from the store, too. */
static void remove_one(const struct generation *g, const char *id)
{
	struct builds *bs = g->all->owner;
	struct snapshot *sn = snapshot_find(bs->config.fleet, g->project_id, id);
	struct err err;

	if (sn && !snapshot_is_fetched(sn)) {
		if (snapshot_remove(sn, &err) < 0)
			log_warn("snapshot.not_removed", "error='%s'", err.message);
	} else if (id[0]) {
		shared_snapshot_remove(bs,
		                       &(struct shared_snapshot_id){.project_id = g->project_id,
		                                                    .snapshot_id = id,
		                                                    .source_id = g->sandbox_id},
		                       on_removed, NULL);
	}
}

static void begin_again(struct generation *g, const struct err *err)
{
	log_warn("sandbox.generation_failed", "id=%s error='%s'", g->sandbox_id, err->message);
	wipe(&g->record);
	g->next.id[0] = '\0';
	g->not_before_us = clock_steady_us() + MAX(AGAIN_US, g->all->every_us / 10);
}

/* The sandbox, unless it has gone or is about to. */
static struct sandbox *still_wanted(const struct generation *g)
{
	struct sandbox *s = find(g);

	return s && sandbox_state(s) != SANDBOX_STOPPING && restorable_can_be_owned(s) ? s : NULL;
}

static void drop_next(struct generation *g)
{
	struct snapshot *sn =
		g->next.id[0] ? snapshot_find(fleet_of(g->all), g->project_id, g->next.id) : NULL;
	struct err err;

	if (sn && snapshot_remove(sn, &err) < 0)
		log_warn("snapshot.not_removed", "error='%s'", err.message);
	wipe(&g->record);
	g->next.id[0] = '\0';
}

static void on_owned(enum owned_result result, uint64_t term, const struct err *err, void *arg)
{
	struct generation *g = arg;
	char before[ID_SIZE];
	struct sandbox *s;

	g->is_telling = false;
	if (!g->all || g->is_removed) {
		generation_free(g);
		return;
	}
	s = still_wanted(g);
	if (result == OWNED_REFUSED) {
		drop_next(g);
		begin_again(g, err);
		return;
	}
	if (!s) { /* its end tells the cluster that all of it goes */
		drop_next(g);
		return;
	}
	if (result == OWNED_ELSEWHERE) {
		drop_next(g);
		restorable_doubt(s);
		return;
	}
	(void)snprintf(before, sizeof(before), "%s", restorable_generation(s));
	g->next.term = term;
	g->stamp = g->next_stamp;
	restorable_set_generation(s, &g->next);
	log_info("sandbox.generation", "id=%s generation=%s", g->sandbox_id, g->next.id);
	if (before[0] && strcmp(before, g->next.id) != 0)
		remove_one(g, before);
	wipe(&g->record);
	g->next.id[0] = '\0';
}

static void own(struct generation *g)
{
	struct sandbox *s = still_wanted(g);
	const uint64_t now = clock_wall_us();
	struct err err;
	int r;

	if (!s) {
		drop_next(g);
		return;
	}
	r = restorable_set_asked(s, &err);
	if (r == 0) {
		r = node_own(shared_snapshots_node(g->all->owner->shared),
		             &(struct node_owned){.id = g->sandbox_id,
		                                  .project_id = g->project_id,
		                                  .generation = g->next.id,
		                                  .record = g->record,
		                                  .term = restorable_term(s)},
		             now > g->next.taken_us ? (now - g->next.taken_us) / 1000 : 0, on_owned,
		             g);
		if (r < 0)
			(void)err_set(&err, ERR_UNAVAILABLE, 0,
			              "this node has no key for what it tells the cluster");
	}
	if (r == 0) {
		g->is_telling = true;
		return;
	}
	drop_next(g);
	begin_again(g, &err);
}

static void on_durable(const struct err *err, void *arg)
{
	struct generation *g = arg;
	const struct err why = err ? *err : (struct err){0};

	if (!err) {
		own(g);
		return;
	}
	drop_next(g);
	if (find(g))
		begin_again(g, &why);
}

static void on_taken(struct snapshot *sn, const struct err *failure, void *arg)
{
	struct generation *g = arg;
	struct err err;
	int r;

	g->is_taking = false;
	if (!g->all || g->is_removed) {
		if (sn && snapshot_remove(sn, &err) < 0)
			log_warn("snapshot.not_removed", "error='%s'", err.message);
		generation_free(g);
		return;
	}
	if (!sn) {
		begin_again(g, failure);
		return;
	}
	(void)snprintf(g->next.id, sizeof(g->next.id), "%s", snapshot_id(sn));
	g->durable = (struct shared_wait){.fn = on_durable, .arg = g};
	list_init(&g->durable.link);
	r = shared_snapshot_await(g->all->owner,
	                          &(struct shared_snapshot_id){.project_id = g->project_id,
	                                                       .snapshot_id = g->next.id,
	                                                       .source_id = g->sandbox_id},
	                          NULL, &g->durable, &err);
	if (r == 0)
		own(g);
	if (r >= 0)
		return;
	drop_next(g);
	begin_again(g, &err);
}

static void take(struct generation *g, struct sandbox *s)
{
	const struct snapshot_wish wish = {.is_generation = true};
	struct err err;

	g->record = restorable_record(s);
	if (!g->record) {
		(void)err_set(&err, ERR_TOO_LARGE, 0,
		              "variables, tags and network policy are too long together");
		begin_again(g, &err);
		return;
	}
	g->next = (struct restorable_generation){.taken_us = clock_wall_us(),
	                                         .is_at_rest = restorable_is_at_rest(s)};
	g->taken_us = clock_steady_us();
	g->next_stamp = restorable_stamp(s);
	g->is_taking = true;
	if (snapshot_take(s, &wish, on_taken, g, &err) == 0)
		return;
	g->is_taking = false;
	begin_again(g, &err);
}

/* Those that an earlier gateway has begun. */
static struct snapshot *left_over(const struct generation *g, const struct sandbox *s)
{
	return restorable_other_generation(s, g->next.id);
}

static bool is_due(const struct generation *g, const struct sandbox *s, uint64_t now)
{
	const bool is_first = !restorable_generation(s)[0];

	if (g->not_before_us > now)
		return false;
	if (is_first)
		return true;
	if (restorable_is_at_rest(s))
		return !restorable_has_rested(s) ||
		       (g->stamp != 0 && g->stamp != restorable_stamp(s));
	return now >= g->taken_us + g->all->every_us && g->stamp != restorable_stamp(s);
}

static struct generation *of(struct generations *all, const struct sandbox *s)
{
	struct generation *g = NULL;

	HASH_FIND_STR(all->all, sandbox_id(s), g);
	if (g)
		return g;
	g = xnew0(struct generation);
	g->all = all;
	(void)snprintf(g->sandbox_id, ID_SIZE, "%s", sandbox_id(s));
	(void)snprintf(g->project_id, ID_SIZE, "%s", sandbox_project_id(s));
	g->taken_us = clock_steady_us();
	if (restorable_has_rested(s))
		g->stamp = restorable_stamp(s);
	list_init(&g->durable.link);
	HASH_ADD_STR(all->all, sandbox_id, g);
	return g;
}

static void look_at(struct sandbox *s, void *arg)
{
	struct generations *all = arg;
	struct generation *g = of(all, s);
	const uint64_t now = clock_steady_us();
	struct snapshot *old;
	struct err err;

	g->is_seen = true;
	if (g->is_taking || g->is_telling || g->next.id[0] || !restorable_can_take(s))
		return;
	while ((old = left_over(g, s)) && snapshot_remove(old, &err) == 0)
		;
	if (is_due(g, s, now))
		take(g, s);
}

static void forget(struct generation *g)
{
	shared_wait_remove(&g->durable);
	HASH_DEL(g->all->all, g);
	if (g->is_taking || g->is_telling) {
		g->is_removed = true; /* the answer frees it */
		return;
	}
	drop_next(g);
	generation_free(g);
}

static void forget_gone(struct generations *all)
{
	for (struct generation *g = all->all, *next; g; g = next) {
		const bool is_seen = g->is_seen;

		next = g->hh.next;
		g->is_seen = false;
		if (!is_seen && !find(g))
			forget(g);
	}
}

static void on_look(struct loop *loop, void *arg)
{
	struct generations *all = arg;
	struct node *n = shared_snapshots_node(all->owner->shared);

	(void)loop;
	loop_timer_set_in(all->look, LOOK_US);
	if (!n || !fleet_config(fleet_of(all))->has_objects || node_check(n, NULL) < 0 ||
	    !node_owns(n))
		return;
	restorables_each(fleet_of(all), look_at, all);
	forget_gone(all);
}

/* Brings one here, for a sandbox that was taken over. */

struct generation_fetch {
	struct shared_wait wait;
	void (*fn)(const struct err *err, void *arg);
	void *arg;
};

static void on_brought(const struct err *err, void *arg)
{
	const struct generation_fetch b = *(struct generation_fetch *)arg;

	free(arg);
	b.fn(err, b.arg);
}

static int bring(const char *project_id, const char *snapshot_id, const char *source_id,
                 void (*fn)(const struct err *err, void *arg), void *fn_arg, void *arg,
                 struct err *err)
{
	const struct shared_snapshot_id ref = {
		.project_id = project_id, .snapshot_id = snapshot_id, .source_id = source_id};
	struct generations *all = arg;
	struct generation_fetch *b = xnew0(struct generation_fetch);
	int r;

	*b = (struct generation_fetch){.fn = fn, .arg = fn_arg};
	b->wait.fn = on_brought;
	b->wait.arg = b;
	r = shared_snapshot_fetch(all->owner, &ref, &b->wait, err);
	if (r <= 0)
		free(b);
	return r;
}

void generations_begin(struct generations *all)
{
	restorables_bring_by(fleet_of(all), bring, all);
	loop_timer_set_in(all->look, 0);
}

struct generations *generations_new(struct builds *bs)
{
	struct generations *all = xnew0(struct generations);

	all->owner = bs;
	all->every_us = MAX(bs->config.generation_every_ms * 1000, EVERY_MIN);
	all->look = loop_timer_new(bs->config.loop, on_look, all);
	return all;
}

void generations_free(struct generations *all)
{
	struct generation *g, *next;

	restorables_bring_by(fleet_of(all), NULL, NULL);
	HASH_ITER (hh, all->all, g, next) {
		shared_wait_remove(&g->durable);
		HASH_DEL(all->all, g);
		g->all = NULL;
		if (!g->is_taking && !g->is_telling)
			generation_free(g); /* else the answer does */
	}
	loop_timer_free(all->look);
	free(all);
}
