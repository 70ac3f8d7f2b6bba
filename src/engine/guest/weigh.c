// SPDX-License-Identifier: Apache-2.0
/*
 * A divisor is a power of two, so that it seldom changes: a change is a write for each sandbox of
 * the owner. It rises at once and falls slowly, so an owner whose sandboxes work in turns is
 * counted as if all of them worked.
 */
#include "engine/guest/weigh.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/guest/guest.h"

#include <unistd.h>
#include <uthash.h>

#define LOOK_US     250000
#define READS_MAX   256   /* guests that a look reads, */
#define WRITES_MAX  256   /* and writes: the rest has its turn in the next ones */
#define BUSY_PART   16    /* of one CPU, that all must use before anybody is read */
#define OWNERS      8192U /* an owner's of weight 100 */
#define AHEAD_PART  4     /* of that, for guests that nobody waits for */
#define SCALE       16    /* of counts of busy sandboxes */
#define NEXT_POWER  23    /* sqrt(2), by that scale: above it the next power of two is nearer */
#define DIVISOR_MAX 12    /* 4096 */
#define MODEST      8U    /* times the weight, for a modest owner */
#define ACTIVE_PART 32    /* of one CPU: who uses less counts as absent */
#define LOOKS_ABOVE 2     /* its part, in a row, make an owner greedy: one may be a first reading */
#define LOOKS_BELOW 8     /* and modest again */
#define ONE_CPU     1000U /* as cpu_use tells it */
#define ALL_A_CPU   2048U /* what all guests together weigh for each CPU: two usual processes */

struct owner {
	uint64_t number;
	uint32_t weight;
	size_t n_guests;
	uint64_t used, most; /* by all and by the busiest, at this look */
	uint64_t busy;       /* sandboxes, by SCALE */
	unsigned divisor;    /* its logarithm */
	bool is_greedy;
	unsigned n_above, n_below; /* its part; looks in a row */
	UT_hash_handle hh;
};

static bool is_shared(const struct weigh *w)
{
	return HASH_COUNT(w->owners) > 1;
}

/* How many guests of one owner are starting. They count as busy until the next look. */
static uint32_t count_starting(struct guest_host *host, const struct owner *o)
{
	uint32_t n = 0;

	list_for_each (&host->guests, struct guest, g, link)
		n += g->owner == o && g->state == GUEST_STARTING;
	return n;
}

static uint64_t owner_weight(const struct owner *o)
{
	return (uint64_t)OWNERS * o->weight / 100;
}

/* What all sandboxes of the owner weigh together. */
static uint64_t weight_now(const struct owner *o)
{
	return owner_weight(o) * (o->is_greedy ? 1 : MODEST);
}

static uint32_t weight_of(const struct weigh *w, const struct guest *g)
{
	const struct owner *o = g->owner;

	if (!o || !is_shared(w))
		return WEIGH_USUAL;
	return (uint32_t)MAX(weight_now(o) >> o->divisor, UINT64_C(2));
}

static bool has_group(const struct guest *g)
{
	return g->state == GUEST_STARTING || g->state == GUEST_RUNNING;
}

/* Returns whether it was written. */
static bool set_weight(struct guest *g, uint32_t weight)
{
	struct err err;

	if (g->cpu_weight == weight || !has_group(g))
		return false;
	if (cgroup_set_weight(&g->host->cgroups, g->spec.id, weight, &err) < 0)
		log_debug("jail.weight_not_set", "id=%s error='%s'", g->spec.id, err.message);
	g->cpu_weight = weight; /* so that a failing write is not repeated at every look */
	return true;
}

/* How much of a CPU it used since the last reading. */
static void read_use(struct guest *g, uint64_t now_us)
{
	uint64_t ns = cgroup_cpu_ns(&g->host->cgroups, g->spec.id);
	uint64_t us = now_us - g->cpu_read_us;

	g->cpu_use = g->cpu_read_us > 0 && us > 0 && ns > g->cpu_ns ? (ns - g->cpu_ns) / us : 0;
	g->cpu_ns = ns;
	g->cpu_read_us = now_us;
}

static void count_busy(struct weigh *w)
{
	struct owner *o, *next;

	HASH_ITER (hh, w->owners, o, next) {
		o->used = o->most = 0;
	}
	list_for_each (&w->host->guests, struct guest, g, link) {
		if (!g->owner)
			continue;
		g->owner->used += g->cpu_use;
		g->owner->most = MAX(g->owner->most, g->cpu_use);
	}
	HASH_ITER (hh, w->owners, o, next) {
		uint64_t busy = o->most > 0 ? o->used * SCALE / o->most : SCALE;

		o->busy = MAX(busy, o->busy - o->busy / 4);
		for (o->divisor = 0;
		     o->divisor < DIVISOR_MAX && o->busy > ((uint64_t)NEXT_POWER << o->divisor);)
			o->divisor++;
	}
}

static bool is_active(const struct owner *o)
{
	return o->used > ONE_CPU / ACTIVE_PART;
}

/* Greedy soon, modest again after a while: two that would take all are both greedy before long,
 * and stay so. Between the two bounds nothing changes. */
static void compare(struct owner *o, uint64_t share)
{
	o->n_above = o->used * 8 > share * 9 ? o->n_above + 1 : 0;
	o->n_below = o->used * 8 < share * 7 ? o->n_below + 1 : 0;
	if (o->n_above >= LOOKS_ABOVE)
		o->is_greedy = true;
	if (o->n_below >= LOOKS_BELOW)
		o->is_greedy = false;
}

/* An owner's share is the part of what all have used that its weight gives it among the active. */
static void find_greedy(struct weigh *w)
{
	uint64_t used = 0, weights = 0;

	for (const struct owner *o = w->owners; o; o = o->hh.next) {
		used += o->used;
		weights += is_active(o) ? owner_weight(o) : 0;
	}
	for (struct owner *o = w->owners; o; o = o->hh.next) {
		uint64_t of = weights + (is_active(o) ? 0 : owner_weight(o));

		compare(o, of > 0 ? used * owner_weight(o) / of : used);
	}
}

/* Guests that were read go to the end of the list, so the next look starts with others. */
static void read_some(struct guest_host *host, uint64_t now_us)
{
	const struct list *last = host->guests.prev;
	unsigned n = 0;

	list_for_each (&host->guests, struct guest, g, link) {
		bool is_last = &g->link == last;

		if (g->owner && has_group(g))
			read_use(g, now_us);
		list_remove(&g->link);
		list_append(&host->guests, &g->link);
		if (is_last || ++n == READS_MAX)
			return;
	}
}

/* Returns whether all have their weight now. */
static bool write_some(const struct weigh *w)
{
	unsigned n = 0;

	list_for_each (&w->host->guests, struct guest, g, link)
		if (n < WRITES_MAX)
			n += set_weight(g, weight_of(w, g));
	return n < WRITES_MAX;
}

static void look(struct loop *loop, void *arg)
{
	struct weigh *w = arg;
	uint64_t now_us = loop_now_us(loop), us = now_us - w->looked_us;
	uint64_t ns = cgroup_cpu_ns(&w->host->cgroups, ".");
	bool is_done;

	if (is_shared(w) && (ns - w->used_ns) / 1000 * BUSY_PART >= us) {
		read_some(w->host, now_us);
		count_busy(w);
		find_greedy(w);
	}
	is_done = write_some(w);
	w->used_ns = ns;
	w->looked_us = now_us;
	if (is_shared(w) || !is_done)
		loop_timer_set_in(w->look, LOOK_US);
}

static struct owner *get_owner(struct weigh *w, uint64_t number)
{
	struct owner *o;

	HASH_FIND(hh, w->owners, &number, sizeof(number), o);
	if (o)
		return o;
	o = xnew0(struct owner);
	o->number = number;
	HASH_ADD(hh, w->owners, number, sizeof(o->number), o);
	/* A second owner changes the weights of the first one's sandboxes; so does its leaving. */
	if (HASH_COUNT(w->owners) == 2)
		loop_timer_set_in(w->look, 0);
	return o;
}

void weigh_assign(struct weigh *w, struct guest *g, uint64_t owner, uint32_t weight, bool is_ahead)
{
	struct owner *o;
	uint32_t wanted;

	if (!has_group(g))
		return;
	o = get_owner(w, owner);
	o->weight = weight;
	if (g->state == GUEST_STARTING)
		g->cpu_read_us = loop_now_us(w->host->loop); /* it has used nothing by now */
	if (g->owner != o) {
		o->n_guests++;
		weigh_leave(w, g);
		g->owner = o;
	}
	wanted = weight_of(w, g);
	if (g->state == GUEST_STARTING && is_shared(w))
		wanted = MIN(wanted, (uint32_t)(weight_now(o) / count_starting(w->host, o))) /
		         (is_ahead ? AHEAD_PART : 1);
	(void)set_weight(g, wanted);
}

void weigh_leave(struct weigh *w, struct guest *g)
{
	struct owner *o = take_ptr(g->owner);

	if (!o || --o->n_guests > 0)
		return;
	HASH_DEL(w->owners, o);
	free(o);
}

/* A new group weighs as much as one usual process, divided among the CPUs. So on a busy host a call
 * waited in its guest behind each process and each of the kernel's own threads. */
static void weigh_all(const struct guest_host *host)
{
	const long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct err err;

	if (cgroup_set_weight_of_all(&host->cgroups, ALL_A_CPU * (uint32_t)MAX(n_cpus, 1L), &err) <
	    0)
		log_debug("jail.weight_not_set", "error='%s'", err.message);
}

void weigh_open(struct weigh *w, struct guest_host *host)
{
	weigh_all(host);
	*w = (struct weigh){.host = host, .look = loop_timer_new(host->loop, look, w)};
}

void weigh_close(struct weigh *w)
{
	struct owner *o, *next;

	HASH_ITER (hh, w->owners, o, next) {
		HASH_DEL(w->owners, o);
		free(o);
	}
	loop_timer_free(take_ptr(w->look));
}
