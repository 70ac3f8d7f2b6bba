// SPDX-License-Identifier: Apache-2.0
/*
 * Each engine, template and size that is asked for has a shelf. Were a shelf refilled one by one,
 * `owed` would be how far it is behind its claims; the highest of it in the last minute or so is
 * what should have been there, and is the shelf's target. The default size has at least pool_min;
 * another size is kept only while it is asked for again and again. All together are bounded by
 * pool_max, by pool_memory as spares were measured to use, and by the room that sandboxes leave:
 * they come first, and a spare in their way is ended.
 *
 * Spares that are vms are copies of one that was booted ahead (warm.c). Where there is none to copy
 * there are no spares; for the default size one is made at once.
 */
#include "sandbox/shelf.h"

#include "sandbox/template.h"
#include "sandbox/warm.h"

#include <string.h>

#define MILLISECONDS UINT64_C(1000)
#define FADING       64
#define SHELVES_MAX  8
#define ONE          UINT64_C(1000) /* demand is in thousandths of a spare */
#define WORTH        (3 * ONE)      /* claims of another size, before it gets spares */

/* Until the first was measured. */
static const struct cost guesses[] = {
	[ENGINE_JAIL] = {.fill_us = 50 * MILLISECONDS, .bytes = (uint64_t)24 << 20},
	[ENGINE_VM] = {.fill_us = 500 * MILLISECONDS, .bytes = (uint64_t)64 << 20},
};

static bool same_size(const struct guest_limits *a, const struct guest_limits *b)
{
	return a->memory_bytes == b->memory_bytes && a->disk_bytes == b->disk_bytes &&
	       a->inodes == b->inodes && a->cpu_milli == b->cpu_milli && a->pids == b->pids &&
	       a->nofile == b->nofile;
}

static struct shelf *shelf_new(struct pool *p, uint32_t engine, const char *template_id,
                               const struct guest_limits *limits)
{
	struct shelf *shelf = xnew0(struct shelf);

	shelf->engine = engine;
	(void)snprintf(shelf->template_id, sizeof(shelf->template_id), "%s", template_id);
	shelf->limits = *limits;
	list_append(&p->shelves, &shelf->link);
	p->n_shelves++;
	return shelf;
}

/* Its spares are of no use any more. */
static void shelf_clear(struct pool *p, const struct shelf *shelf)
{
	list_for_each (&p->spares, struct spare, spare, link)
		if (spare->shelf == shelf)
			spare->shelf = NULL;
}

static void shelf_free(struct pool *p, struct shelf *shelf)
{
	shelf_clear(p, shelf);
	list_remove(&shelf->link);
	p->n_shelves--;
	free(shelf);
}

/* There always is one. */
static struct shelf *default_of(const struct pool *p)
{
	return list_entry(p->shelves.next, struct shelf, link);
}

static bool is_default(const struct pool *p, const struct shelf *shelf)
{
	return shelf->link.prev == &p->shelves;
}

/* What creates that name neither template nor engine start from may have changed. */
static void set_default(struct pool *p)
{
	struct shelf *shelf = default_of(p);
	const struct template *t = template_default(p->fleet);
	const char *id = t ? template_id(t) : "";
	uint32_t engine;
	struct err err;

	if (engine_choose(p->fleet, NULL, NULL, 0, &engine, &err) < 0)
		engine = ENGINE_JAIL;
	if (shelf->engine == engine && strcmp(shelf->template_id, id) == 0)
		return;
	shelf_clear(p, shelf);
	shelf->engine = engine;
	(void)snprintf(shelf->template_id, sizeof(shelf->template_id), "%s", id);
}

static bool can_fill(const struct pool *p, const struct shelf *shelf)
{
	const struct template *t = template_find_id(p->fleet, shelf->template_id);

	if (shelf->engine == ENGINE_VM)
		return t && warm_has(p->fleet, template_image(t), &shelf->limits);
	return t || shelf->template_id[0] == '\0';
}

/* Before any bound. */
static size_t wish(const struct pool *p, const struct shelf *shelf)
{
	const size_t n = (size_t)((shelf->target + ONE - 1) / ONE);

	if (!can_fill(p, shelf))
		return 0;
	if (is_default(p, shelf))
		return MAX(n, p->fleet->config.pool_min);
	return shelf->claims < WORTH ? 0 : n;
}

static void set_wanted(struct pool *p)
{
	const struct fleet_config *c = &p->fleet->config;
	uint64_t bytes = c->pool_memory_bytes;
	size_t room =
		c->sandboxes_max > p->fleet->n_alive ? c->sandboxes_max - p->fleet->n_alive : 0;

	room = MIN(room, c->pool_max);
	list_for_each (&p->shelves, struct shelf, shelf, link) {
		const uint64_t each = p->costs[shelf->engine].bytes;

		shelf->wanted = (size_t)MIN(MIN(wish(p, shelf), room), bytes / each);
		room -= shelf->wanted;
		bytes -= shelf->wanted * each;
	}
}

/* The first of them shall find one to copy. */
static void seed_default(struct pool *p)
{
	const struct shelf *shelf = default_of(p);

	if (shelf->engine == ENGINE_VM)
		warm_make(p->fleet, template_find_id(p->fleet, shelf->template_id), &shelf->limits);
}

static bool is_faded(const struct pool *p, const struct shelf *shelf)
{
	return is_default(p, shelf) ? shelf->target <= p->fleet->config.pool_min * ONE
	                            : shelf->claims < ONE / 2;
}

bool shelves_fade(struct pool *p)
{
	bool is_quiet = true;

	list_for_each (&p->shelves, struct shelf, shelf, link) {
		shelf->target -= (shelf->target + FADING - 1) / FADING;
		shelf->claims -= (shelf->claims + FADING - 1) / FADING;
		if (!is_faded(p, shelf))
			is_quiet = false;
		else if (!is_default(p, shelf))
			shelf_free(p, shelf);
	}
	return is_quiet;
}

void shelves_look(struct pool *p)
{
	set_default(p);
	set_wanted(p);
	seed_default(p);
}

struct shelf *shelf_find(struct pool *p, uint32_t engine, const char *template_id,
                         const struct guest_limits *limits)
{
	list_for_each (&p->shelves, struct shelf, shelf, link)
		if (shelf->engine == engine && same_size(&shelf->limits, limits) &&
		    strcmp(shelf->template_id, template_id) == 0)
			return shelf;
	return p->n_shelves < SHELVES_MAX ? shelf_new(p, engine, template_id, limits) : NULL;
}

void shelf_claim(struct pool *p, struct shelf *shelf)
{
	uint64_t now = loop_now_us(p->loop);
	uint64_t paid = (now - shelf->owed_at_us) * ONE / p->costs[shelf->engine].fill_us;

	shelf->owed = (shelf->owed > paid ? shelf->owed - paid : 0) + ONE;
	shelf->owed_at_us = now;
	shelf->target = MAX(shelf->target, MIN(shelf->owed, p->fleet->config.pool_max * ONE));
	shelf->claims += ONE;
}

void shelves_init(struct pool *p)
{
	memcpy(p->costs, guesses, sizeof(guesses));
	list_init(&p->shelves);
	(void)shelf_new(p, ENGINE_JAIL, "", &p->fleet->config.default_limits);
}

void shelves_done(struct pool *p)
{
	list_for_each (&p->shelves, struct shelf, shelf, link)
		shelf_free(p, shelf);
}
