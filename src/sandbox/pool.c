// SPDX-License-Identifier: Apache-2.0
/*
 * A spare is a sandbox whose create stands still before its last step: the broker has made it, its
 * agent has answered, its interpreters have started; what is left is to whom it belongs. So taking
 * one costs a row in the store, and whatever ends a create (a dead agent, a broken link) ends a
 * spare the same way. A gateway that dies leaves spares without a row, and the next start deletes
 * what has none.
 *
 *	filling --> ready --> taken
 *	    +---------+--> ending --> (freed)
 *
 * How many: each template and size that is asked for has a shelf. Were a shelf refilled one by one,
 *`owed` would be how far it is behind its claims; the highest of it in the last minute or so is
 *what should have been there, and is the shelf's target. The default size has at least pool_min;
 *another size is kept only while it is asked for again and again. All together are bounded by
 *pool_max, by pool_memory as spares were measured to use, and by the room that sandboxes leave:
 *they come first, and a spare in their way is ended.
 *
 * When: creates that are under way come first too. A fill begins only while there are none, at most
 * FILLS_MAX at once, and a moment after the claim that made it needed, so that it does not run
 * beside the first call of who has claimed. Fills that fail wait twice as long each time.
 */
#include "sandbox/pool.h"

#include "base/log.h"
#include "sandbox/interpreter.h"
#include "sandbox/template.h"
#include "sandbox/warm.h"

#include <inttypes.h>
#include <string.h>

#define MILLISECONDS  UINT64_C(1000)
#define SECONDS       UINT64_C(1000000)
#define FILLS_MAX     2
#define FADING        64
#define AGAIN_MOST    64
#define SHELVES_MAX   8
#define LANGUAGES_MAX 4
#define ONE           UINT64_C(1000) /* demand is in thousandths of a spare */
#define WORTH         (3 * ONE)      /* claims of another size, before it gets spares */
/* Until the first was measured; and the least, for what the kernel holds that is not charged. */
#define GUESS_BYTES ((uint64_t)24 << 20)
#define LEAST_BYTES ((uint64_t)1 << 20)
#define GUESS_US    (50 * MILLISECONDS)

/* Half of the demand is forgotten in 44 s. */
static const struct pool_timing usual = {
	.pause_us = 20 * MILLISECONDS,
	.beat_us = 1 * SECONDS,
	.again_us = 1 * SECONDS,
};

struct shelf {
	struct list link;          /* the default size first */
	char template_id[ID_SIZE]; /* "" = host */
	struct guest_limits limits;
	uint64_t owed, owed_at_us;
	uint64_t target; /* in thousandths, before any bound */
	uint64_t claims; /* fading */
	size_t wanted;   /* target, bounded */
};

struct spare {
	struct list link; /* in order of creation */
	struct pool *pool;
	struct sandbox *s;
	struct shelf *shelf; /* NULL: its shelf is gone */
	uint64_t begun_us;
	bool is_ready;
	bool is_seed; /* to be saved as a warm copy (warm.c), and of no other use */
	uint64_t usage_tag;
};

struct pool {
	struct fleet *fleet;
	struct loop *loop;
	struct pool_timing timing;
	const struct language *languages[LANGUAGES_MAX];
	size_t n_languages;
	struct list shelves, spares;
	size_t n_shelves;
	bool is_open;
	struct loop_timer *soon, *beat;
	uint64_t fill_us;                 /* from ask to ready, as they lately took */
	uint64_t spare_bytes;             /* that one uses, as measured */
	uint64_t not_before_us, again_us; /* after failures */
	uint64_t quiet_until_us;          /* after a claim */
	uint64_t hits, misses;
	loop_fn closed;
	void *closed_arg;
};

DEFINE_FREEP(struct pool, pool_free)

static bool same_size(const struct guest_limits *a, const struct guest_limits *b)
{
	return a->memory_bytes == b->memory_bytes && a->disk_bytes == b->disk_bytes &&
	       a->inodes == b->inodes && a->cpu_milli == b->cpu_milli && a->pids == b->pids &&
	       a->nofile == b->nofile;
}

static struct shelf *shelf_new(struct pool *p, const char *template_id,
                               const struct guest_limits *limits)
{
	struct shelf *shelf = xnew0(struct shelf);

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

static bool is_default(const struct pool *p, const struct shelf *shelf)
{
	return shelf->link.prev == &p->shelves;
}

/* Or still to become so. One that ends is neither. */
static bool is_of_use(const struct spare *spare)
{
	return spare->s->state == SANDBOX_CREATING;
}

static size_t count(const struct pool *p, const struct shelf *shelf, bool only_ready)
{
	size_t n = 0;

	list_for_each (&p->spares, struct spare, spare, link)
		n += is_of_use(spare) && !spare->is_seed && (!shelf || spare->shelf == shelf) &&
		     (spare->is_ready || !only_ready);
	return n;
}

static size_t count_filling(const struct pool *p)
{
	return count(p, NULL, false) - count(p, NULL, true);
}

static size_t ceiling(const struct pool *p)
{
	const struct fleet_config *c = &p->fleet->config;
	uint64_t by_memory = c->pool_memory_bytes / p->spare_bytes;
	uint64_t room =
		c->sandboxes_max > p->fleet->n_alive ? c->sandboxes_max - p->fleet->n_alive : 0;

	return (size_t)MIN(MIN(by_memory, room), c->pool_max);
}

/* What creates without a template start from may have changed. */
static void set_default(struct pool *p)
{
	struct shelf *shelf = list_first(&p->shelves, struct shelf, link);
	const struct template *t = template_default(p->fleet);
	const char *id = t ? template_id(t) : "";

	if (strcmp(shelf->template_id, id) == 0)
		return;
	shelf_clear(p, shelf);
	(void)snprintf(shelf->template_id, sizeof(shelf->template_id), "%s", id);
}

static bool has_template(const struct pool *p, const struct shelf *shelf)
{
	return shelf->template_id[0] == '\0' || template_find_id(p->fleet, shelf->template_id);
}

static void set_wanted(struct pool *p)
{
	size_t left = ceiling(p);

	list_for_each (&p->shelves, struct shelf, shelf, link) {
		size_t n = (size_t)((shelf->target + ONE - 1) / ONE);

		if (is_default(p, shelf))
			n = MAX(n, p->fleet->config.pool_min);
		else if (shelf->claims < WORTH || !has_template(p, shelf))
			n = 0;
		shelf->wanted = MIN(n, left);
		left -= shelf->wanted;
	}
}

/* The oldest go first: who has waited longest has been wanted least. */
static void end_surplus(struct pool *p)
{
	list_for_each (&p->spares, struct spare, spare, link)
		if (spare->is_ready && !spare->is_seed &&
		    (!spare->shelf || count(p, spare->shelf, true) > spare->shelf->wanted))
			sandbox_end(spare->s, END_DELETED, NULL, "it was not needed");
}

static int fill(struct pool *p, struct shelf *shelf, struct err *err)
{
	struct spare *spare = xnew0(struct spare);
	int r;

	*spare = (struct spare){.pool = p, .shelf = shelf, .begun_us = loop_now_us(p->loop)};
	r = create_spare(p->fleet, template_find_id(p->fleet, shelf->template_id), &shelf->limits,
	                 ENGINE_JAIL, spare, &spare->s, err);
	if (r < 0) {
		free(spare);
		return r;
	}
	list_append(&p->spares, &spare->link);
	return 0;
}

/* Said once for a row of failures, whoever waits for a spare goes his own way meanwhile. */
static void back_off(struct pool *p, const struct err *err)
{
	uint64_t now = loop_now_us(p->loop);
	uint64_t most_us = AGAIN_MOST * p->timing.again_us;
	bool is_first = p->again_us == 0 || now > p->not_before_us + most_us;

	if (is_first)
		log_warn("pool.failed", "error='%s'", err->message);
	p->again_us = is_first ? p->timing.again_us : MIN(2 * p->again_us, most_us);
	p->not_before_us = now + p->again_us;
	pool_look(p);
}

static void fill_up(struct pool *p)
{
	uint64_t from_us = MAX(p->not_before_us, p->quiet_until_us);
	struct err err;

	if (p->fleet->n_creating > 0)
		return; /* its end is told */
	if (loop_now_us(p->loop) < from_us) {
		loop_timer_set(p->soon, from_us);
		return;
	}
	list_for_each (&p->shelves, struct shelf, shelf, link) {
		while (count(p, shelf, false) < shelf->wanted && count_filling(p) < FILLS_MAX) {
			if (fill(p, shelf, &err) < 0) {
				back_off(p, &err);
				return;
			}
		}
	}
}

static void on_soon(struct loop *loop, void *arg)
{
	struct pool *p = arg;

	(void)loop;
	if (!p->is_open)
		return;
	set_default(p);
	set_wanted(p);
	end_surplus(p);
	fill_up(p);
}

void pool_look(struct pool *p)
{
	if (p->is_open)
		loop_timer_set_in(p->soon, 0);
}

static bool is_faded(const struct pool *p, const struct shelf *shelf)
{
	return is_default(p, shelf) ? shelf->target <= p->fleet->config.pool_min * ONE
	                            : shelf->claims < ONE / 2;
}

static void on_beat(struct loop *loop, void *arg)
{
	struct pool *p = arg;
	bool is_quiet = true;

	(void)loop;
	list_for_each (&p->shelves, struct shelf, shelf, link) {
		shelf->target -= (shelf->target + FADING - 1) / FADING;
		shelf->claims -= (shelf->claims + FADING - 1) / FADING;
		if (!is_faded(p, shelf))
			is_quiet = false;
		else if (!is_default(p, shelf))
			shelf_free(p, shelf);
	}
	if (!is_quiet)
		loop_timer_set_in(p->beat, p->timing.beat_us);
	pool_look(p);
}

static struct shelf *find_shelf(struct pool *p, const char *template_id,
                                const struct guest_limits *limits)
{
	list_for_each (&p->shelves, struct shelf, shelf, link)
		if (same_size(&shelf->limits, limits) &&
		    strcmp(shelf->template_id, template_id) == 0)
			return shelf;
	return p->n_shelves < SHELVES_MAX ? shelf_new(p, template_id, limits) : NULL;
}

static void note_claim(struct pool *p, struct shelf *shelf)
{
	uint64_t now = loop_now_us(p->loop);
	uint64_t paid = (now - shelf->owed_at_us) * ONE / p->fill_us;

	shelf->owed = (shelf->owed > paid ? shelf->owed - paid : 0) + ONE;
	shelf->owed_at_us = now;
	shelf->target = MAX(shelf->target, MIN(shelf->owed, p->fleet->config.pool_max * ONE));
	shelf->claims += ONE;
	if (!loop_timer_is_set(p->beat))
		loop_timer_set_in(p->beat, p->timing.beat_us);
}

static struct spare *find_ready(struct pool *p, const struct shelf *shelf)
{
	list_for_each (&p->spares, struct spare, spare, link)
		if (is_of_use(spare) && spare->shelf == shelf && spare->is_ready &&
		    link_is_healthy(spare->s->link))
			return spare;
	return NULL;
}

static struct sandbox *release(struct spare *spare)
{
	struct sandbox *s = spare->s;

	host_cancel(spare->pool->fleet->host, spare->usage_tag);
	list_remove(&spare->link);
	s->spare = NULL;
	free(spare);
	return s;
}

struct sandbox *pool_offer(struct pool *p, const struct template *t,
                           const struct guest_limits *limits)
{
	const char *id = t ? template_id(t) : "";
	struct shelf *shelf = p->is_open ? find_shelf(p, id, limits) : NULL;
	struct spare *spare = shelf ? find_ready(p, shelf) : NULL;

	if (shelf) {
		note_claim(p, shelf);
		p->quiet_until_us =
			count(p, shelf, true) > 1 ? loop_now_us(p->loop) + p->timing.pause_us : 0;
		pool_look(p);
	}
	p->misses += p->is_open && !spare;
	return spare ? spare->s : NULL;
}

void pool_take(struct sandbox *s)
{
	s->spare->pool->hits++;
	(void)release(s->spare);
}

struct sandbox *pool_find(struct pool *p, const char *id)
{
	list_for_each (&p->spares, struct spare, spare, link)
		if (strcmp(spare->s->id, id) == 0)
			return spare->s;
	return NULL;
}

static void get_ready(struct spare *spare)
{
	struct pool *p = spare->pool;
	uint64_t took_us = loop_now_us(p->loop) - spare->begun_us;

	spare->is_ready = true;
	p->fill_us = MAX((3 * p->fill_us + took_us) / 4, MILLISECONDS);
	log_info("pool.ready", "id=%s took_us=%" PRIu64, spare->s->id, took_us);
	pool_look(p);
}

static void on_usage(const struct msg_reply *reply, int fd, void *arg)
{
	struct spare *spare = arg;

	if (fd >= 0)
		(void)close(fd);
	spare->usage_tag = 0;
	if (reply->err.code == ERR_NONE) {
		spare->s->base_usage = reply->usage;
		spare->s->oom_kills = reply->usage.oom_kills;
		spare->pool->spare_bytes = MAX(reply->usage.memory_bytes, LEAST_BYTES);
	}
	get_ready(spare);
}

/* What it has used so far is nobody's, and tells what the next will use. */
static void measure(struct spare *spare)
{
	struct msg_request req = {.op = MSG_USAGE};

	memcpy(req.id, spare->s->id, sizeof(req.id));
	if (host_ask(spare->pool->fleet->host, &req, on_usage, spare, &spare->usage_tag, NULL) < 0)
		get_ready(spare);
}

int pool_seed(struct pool *p, const struct template *t, const struct guest_limits *limits,
              struct err *err)
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
	r = create_spare(p->fleet, t, limits, ENGINE_VM, seed, &seed->s, err);
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
	if (warm_take(seed->s, on_saved, seed->pool->fleet, &err) < 0) {
		warm_on_seed_failed(seed->pool->fleet, &err);
		on_saved(seed->pool->fleet);
	}
}

void pool_on_up(struct sandbox *s)
{
	struct pool *p = s->spare->pool;

	for (size_t i = 0; i < p->n_languages; i++)
		context_warm(s, p->languages[i]);
	pool_on_warm(s);
}

void pool_on_warm(struct sandbox *s)
{
	struct spare *spare = s->spare;

	if (!is_of_use(spare) || spare->is_ready || spare->usage_tag || context_is_warming(s))
		return;
	if (spare->is_seed)
		save_seed(spare);
	else
		measure(spare);
}

void pool_on_failed(struct sandbox *s, const struct err *err)
{
	if (s->spare->is_seed)
		warm_on_seed_failed(s->fleet, err);
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
	*ret = (struct pool_figures){
		.ready = count(p, NULL, true), .hits = p->hits, .misses = p->misses};
	list_for_each (&p->shelves, struct shelf, shelf, link)
		ret->target += shelf->wanted;
}

int pool_new(struct fleet *fleet, struct pool **ret, struct err *err)
{
	auto_call(pool_freep) struct pool *p = xnew0(struct pool);
	const struct fleet_config *c = &fleet->config;

	p->fleet = fleet;
	p->loop = c->loop;
	p->timing = c->pool_timing ? *c->pool_timing : usual;
	p->fill_us = GUESS_US;
	p->spare_bytes = GUESS_BYTES;
	list_init(&p->shelves);
	list_init(&p->spares);
	p->soon = loop_timer_new(p->loop, on_soon, p);
	p->beat = loop_timer_new(p->loop, on_beat, p);
	(void)shelf_new(p, "", &c->default_limits);
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
	list_for_each (&p->shelves, struct shelf, shelf, link)
		shelf_free(p, shelf);
	loop_timer_free(p->soon);
	loop_timer_free(p->beat);
	p->closed = NULL;
	loop_defer(p->loop, free_pool, p); /* this turn may have a call for it */
}
