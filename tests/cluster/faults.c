// SPDX-License-Identifier: Apache-2.0
/* Bad days: nodes die and come back, links to the database are cut one way or both, the database
 * fails over and forgets beats, its clock is set. */
#include "world_private.h"

/* How long between two of a kind, on average, in a cluster of any size. */
#define CRASH_S    25
#define CUT_S      8
#define FAILOVER_S 70
#define CLOCK_S    40

static void again(struct world *w, enum event_kind kind, double mean_s)
{
	later(w, (uint64_t)draw_exponential(w, 1e6 * mean_s), kind, 0, 0, 0);
}

void faults_start(struct world *w)
{
	again(w, EVENT_CRASH, CRASH_S);
	again(w, EVENT_CUT, CUT_S);
	again(w, EVENT_FAILOVER, FAILOVER_S);
	again(w, EVENT_CLOCK, CLOCK_S);
}

static void crash(struct world *w)
{
	uint32_t node = 1 + (uint32_t)draw_below(w, w->o->nodes);
	struct node *n = &w->nodes[node];

	again(w, EVENT_CRASH, CRASH_S);
	if (!n->is_running)
		return;
	w->r->crashes++;
	n->is_running = n->is_wiping = false;
	node_drop_all(w, node);
	n->died_us = w->now_us;
	n->join_epoch = 0;
	for (int i = 0; i < 3; i++)
		n->watches[i] = (struct watch){0};
	n->view.n = 0;
	later(w, (uint64_t)draw_exponential(w, 30e6), EVENT_BOOT, node, 0, 0);
}

static void cut(struct world *w)
{
	uint32_t node = 1 + (uint32_t)draw_below(w, w->o->nodes);
	struct node *n = &w->nodes[node];
	uint64_t way = draw_below(w, 3);

	again(w, EVENT_CUT, CUT_S);
	if (n->has_no_way_to || n->has_no_way_from)
		return;
	w->r->cuts++;
	n->has_no_way_to = way != 1;
	n->has_no_way_from = way != 0;
	later(w, (uint64_t)draw_exponential(w, draw_below(w, 3) ? 8e6 : 50e6), EVENT_MEND, node, 0,
	      0);
}

static void fail_over(struct world *w)
{
	w->r->failovers++;
	w->db.is_up = false;
	later(w, SECOND_US / 2 + (uint64_t)draw_exponential(w, 8e6), EVENT_PROMOTED, 0, 0, 0);
}

void faults_on_event(struct world *w, const struct event *e)
{
	switch (e->kind) {
	case EVENT_CRASH:
		crash(w);
		break;
	case EVENT_BOOT:
		w->nodes[e->node].is_running = true;
		break;
	case EVENT_CUT:
		cut(w);
		break;
	case EVENT_MEND:
		w->nodes[e->node].has_no_way_to = w->nodes[e->node].has_no_way_from = false;
		break;
	case EVENT_FAILOVER:
		fail_over(w);
		break;
	case EVENT_PROMOTED:
		w->db.is_up = true;
		model_promote(&w->db, w->now_us, draw_below(w, 15 * SECOND_US));
		again(w, EVENT_FAILOVER, FAILOVER_S);
		break;
	case EVENT_CLOCK:
		w->database_clock_us =
			(int64_t)draw_below(w, 60 * SECOND_US) - 30 * (int64_t)SECOND_US;
		again(w, EVENT_CLOCK, CLOCK_S);
		break;
	default:
		break;
	}
}
