// SPDX-License-Identifier: Apache-2.0
#include "world_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const invariant_names[INVARIANT_COUNT] = {
	[INVARIANT_LEASED] = "leased",       [INVARIANT_KNOWN] = "known",
	[INVARIANT_USED] = "used",           [INVARIANT_NAME] = "name",
	[INVARIANT_EXCLUSIVE] = "exclusive", [INVARIANT_ROOM] = "room",
	[INVARIANT_ROUTE] = "route",
};

const struct world_options world_usual = {
	.seed = 1,
	.nodes = 20,
	.projects = 20,
	.names = 60,
	.live = 2000,
	.load = 850,
	.seconds = 600,
	.life = 120,
	.late_of = 100,
	.placement = {.choices = 2,
                      .tolerance = 50,
                      .no_spare = 10,
                      .no_image = 30,
                      .lease = 10,
                      .spread_max = 50},
	.fence = {.beat_us = 2 * SECOND_US,
                  .fence_after_us = 6 * SECOND_US,
                  .lost_after_us = 40 * SECOND_US, /* so that it happens often */
                  .margin_us = 1 * SECOND_US,
                  .ending_us = 10 * SECOND_US,
                  .clock_jump_us = SECOND_US / 2},
};

/* Few projects have much, and a tenth of all have less quota than they want. */
static void make_projects(struct world *w)
{
	const struct world_options *o = w->o;
	double sum = 0, mean_units = 0.6 * 2 + 0.3 * 4 + 0.1 * 16;

	for (uint32_t i = 0; i < o->projects; i++) {
		sum += pow(i + 10, -0.8);
		w->projects[i].weight = sum;
	}
	for (uint32_t i = 0; i < o->projects; i++) {
		double share = (w->projects[i].weight - (i ? w->projects[i - 1].weight : 0)) / sum;
		double factor = i % 10 == 3 ? 0.9 : i % 10 < 7 ? 1.3 : 2;

		w->db.projects[i].limit = (uint64_t)(share * o->live * mean_units * factor) + 20;
	}
	sum = 0;
	for (uint32_t i = 0; i < TEMPLATES; i++) {
		sum += 1.0 / (i + 1);
		w->template_weight[i] = sum;
	}
}

/* A quarter is twice as large. Disk is the last to be full; CPU and memory are even. */
static void make_nodes(struct world *w)
{
	const struct world_options *o = w->o;
	double base = (double)o->live / (o->nodes * 1.25 * o->load / 1000);

	w->capacity[PLACEMENT_CPU_MILLI] = (uint64_t)(base * 500);
	w->capacity[PLACEMENT_MEMORY_MIB] = (uint64_t)(base * 1024);
	w->capacity[PLACEMENT_DISK_MIB] = (uint64_t)(base * 3277 * 1.2);
	for (uint32_t i = 1; i <= o->nodes; i++) {
		struct node *n = &w->nodes[i];

		n->is_running = n->is_fresh = true;
		n->leases = xnew0n(struct lease, o->projects);
		n->clock_ppm = (int32_t)draw_below(w, 1001) - 500;
		n->clock_offset_us = SECOND_US + draw_below(w, 86400 * SECOND_US);
		n->stop_us = 100000 + draw_below(w, 800000);
		for (int k = 0; k < PLACEMENT_WHAT_COUNT; k++)
			n->figures.capacity[k] = w->capacity[k] * (i % 4 == 0 ? 2 : 1);
		for (int k = 0; k < TEMPLATES / 4; k++) {
			uint32_t t = k < TEMPLATES / 8 ? (uint32_t)k
			                               : (uint32_t)draw_below(w, TEMPLATES);

			n->images[t / 64] |= UINT64_C(1) << (t % 64);
		}
		later(w, draw_below(w, o->fence.beat_us), EVENT_BEAT, i, 0, 0);
		later(w, draw_below(w, 10 * SECOND_US), EVENT_LEASES, i, 0, 0);
	}
}

/* All have joined, and the first beats' figures are there. */
static void start_joined(struct world *w)
{
	for (uint32_t i = 1; i <= w->o->nodes; i++) {
		struct node *n = &w->nodes[i];
		uint64_t number = fence_send(&n->fence, node_clock(w, n));

		(void)fence_joined(&n->fence, number, model_join(&w->db, i, 0, number, 0, false));
		n->is_fresh = false;
		w->db.nodes[i].figures = n->figures;
		w->db.nodes[i].seen_us = 0;
	}
}

static void take_point(struct world *w)
{
	struct world_point p = {.at_s = (uint32_t)(w->now_us / SECOND_US), .emptiest = 1000};
	struct world_report *r = w->r;
	uint64_t has = 0, room = 0;

	for (uint32_t i = 1; i <= w->o->nodes; i++) {
		const struct node *n = &w->nodes[i];
		uint32_t load = 0;

		if (!n->is_running)
			continue;
		for (int k = 0; k < PLACEMENT_WHAT_COUNT; k++)
			load = MAX(load, (uint32_t)(n->figures.committed[k] * 1000 /
			                            n->figures.capacity[k]));
		has += n->figures.committed[PLACEMENT_MEMORY_MIB];
		room += n->figures.capacity[PLACEMENT_MEMORY_MIB];
		p.fullest = MAX(p.fullest, load);
		p.emptiest = MIN(p.emptiest, load);
	}
	p.load = room ? (uint32_t)(has * 1000 / room) : 0;
	p.proxied = w->point_creates ? (uint32_t)(w->point_proxied * 1000 / w->point_creates) : 0;
	w->point_creates = w->point_proxied = 0;
	if (p.at_s >= w->o->seconds / 2) { /* what was put there at first has left by then */
		r->fullest = MAX(r->fullest, p.fullest);
		r->fullest_sum += p.fullest;
		for (uint32_t i = 3; i < w->o->projects; i += 10) {
			r->pressed_used += w->projects[i].used;
			r->pressed_limit += w->db.projects[i].limit;
		}
	}
	r->points = xrealloc(r->points, (r->n_points + 1) * sizeof(*r->points));
	r->points[r->n_points++] = p;
	for (int i = 0; i < 100; i++)
		life_call(w);
	later(w, 10 * SECOND_US, EVENT_POINT, 0, 0, 0);
}

static void on_call(struct world *w, const struct event *e)
{
	if (w->calls[e->item].stamp != e->stamp)
		return;
	if (e->kind == EVENT_DATABASE)
		contact_done(w, e->item);
	else if (e->kind == EVENT_ANSWER)
		contact_answer(w, e->item);
	else
		contact_give_up(w, e->item);
	call_unref(w, e->item);
}

static void on_create(struct world *w, const struct event *e)
{
	if (w->creates[e->item].stamp != e->stamp)
		return;
	if (e->kind == EVENT_ADMIT)
		life_admit(w, e->item);
	else
		life_refused(w, e->item);
}

static void on_event(struct world *w, const struct event *e)
{
	w->r->steps++;
	switch (e->kind) {
	case EVENT_ARRIVAL:
		life_arrive(w);
		break;
	case EVENT_ADMIT:
	case EVENT_REFUSED:
		on_create(w, e);
		break;
	case EVENT_END:
		if (w->boxes[e->item].stamp == e->stamp)
			life_end(w, e->item);
		break;
	case EVENT_BEAT:
		contact_beat(w, e->node);
		break;
	case EVENT_LEASES:
		contact_leases(w, e->node);
		break;
	case EVENT_WIPED:
		if (w->nodes[e->node].boot == e->stamp)
			contact_wiped(w, e->node);
		break;
	case EVENT_DATABASE:
	case EVENT_ANSWER:
	case EVENT_GIVE_UP:
		on_call(w, e);
		break;
	case EVENT_POINT:
		take_point(w);
		break;
	case EVENT_CRASH:
	case EVENT_BOOT:
	case EVENT_CUT:
	case EVENT_MEND:
	case EVENT_FAILOVER:
	case EVENT_PROMOTED:
	case EVENT_CLOCK:
		faults_on_event(w, e);
		break;
	}
}

void world_run(const struct world_options *o, struct world_report *ret)
{
	struct world w = {.o = o, .r = ret, .random = o->seed};
	struct event e;

	*ret = (struct world_report){0};
	model_init(&w.db, o->nodes, o->projects, o->names);
	w.db.breakage = o->breakage;
	w.nodes = xnew0n(struct node, o->nodes + 1);
	w.projects = xnew0n(struct project, o->projects);
	w.name_holders = xnew0n(uint32_t, o->names + 1);
	make_projects(&w);
	make_nodes(&w);
	life_fill(&w);
	start_joined(&w);
	later(&w, 0, EVENT_ARRIVAL, 0, 0, 0);
	later(&w, SECOND_US, EVENT_POINT, 0, 0, 0);
	if (o->has_faults)
		faults_start(&w);
	while (next_event(&w, &e) && e.at_us < o->seconds * SECOND_US)
		on_event(&w, &e);
	for (uint32_t i = 1; i <= o->nodes; i++) {
		free(w.nodes[i].leases);
		free(w.nodes[i].strays);
	}
	free(w.nodes);
	free(w.projects);
	free(w.name_holders);
	free(w.boxes);
	free(w.creates);
	free(w.calls);
	free(w.heap);
	model_done(&w.db);
}

uint64_t world_broken(const struct world_report *r)
{
	uint64_t n = 0;

	for (int i = 0; i < INVARIANT_COUNT; i++)
		n += r->broken[i];
	return n;
}

void world_report_done(struct world_report *r)
{
	free(r->points);
}
