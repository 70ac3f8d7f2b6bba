// SPDX-License-Identifier: Apache-2.0
/* What nodes and the database say to each other: joins, beats, leases, names, claims. */
#include "world_private.h"

#include <string.h>

static struct fence_rules watch_rules(const struct world *w)
{
	struct fence_rules rules = w->o->fence;

	if (w->o->breakage == BREAK_MARGIN)
		rules.margin_us = 0;
	return rules;
}

/* Nothing that was claimed from it may run there. */
void check_exclusive(struct world *w, uint32_t node)
{
	const struct node *n = &w->nodes[node];

	if (n->n_strays > 0 && n->is_running && node_state(w, n) == FENCE_HELD)
		breaks(w, INVARIANT_EXCLUSIVE, "node %u goes on with what was claimed from it",
		       node);
}

void node_drop_all(struct world *w, uint32_t node)
{
	struct node *n = &w->nodes[node];
	uint32_t next;

	for (uint32_t box = n->first_box; box; box = next) {
		struct box *b = &w->boxes[box];

		next = b->next;
		if (!b->is_down)
			box_stop(w, box);
		if (b->is_restore)
			continue; /* until it is claimed, or the node is back */
		box_unlink(w, box);
		box_free(w, box);
	}
	memset(n->leases, 0, w->o->projects * sizeof(*n->leases));
	n->n_strays = 0;
	n->is_fresh = true;
	n->fence = (struct fence){.number = n->fence.number};
	n->boot++;
}

/* The database knows that nothing of it is left. */
static void drop_down(struct world *w, uint32_t node)
{
	uint32_t next;

	for (uint32_t box = w->nodes[node].first_box; box; box = next) {
		next = w->boxes[box].next;
		if (!w->boxes[box].is_down)
			continue;
		box_unlink(w, box);
		box_free(w, box);
	}
}

void contact_wiped(struct world *w, uint32_t node)
{
	node_drop_all(w, node);
	w->nodes[node].is_wiping = false;
}

void contact_beat(struct world *w, uint32_t node)
{
	struct node *n = &w->nodes[node];
	uint64_t now = node_clock(w, n);
	enum fence_state state;
	uint32_t c;

	later(w, w->o->fence.beat_us, EVENT_BEAT, node, 0, 0);
	if (!n->is_running || n->is_wiping)
		return;
	fence_look(&n->fence, &w->o->fence, now, now);
	state = node_state(w, n);
	if (state == FENCE_LOST && w->o->breakage != BREAK_LOST) {
		n->is_wiping = true;
		later(w, draw_below(w, w->o->fence.ending_us - 3 * SECOND_US), EVENT_WIPED, node, 0,
		      n->boot);
		return;
	}
	c = call_new(w, node, n->fence.is_in ? CALL_BEAT : CALL_JOIN);
	w->calls[c].number = fence_send(&n->fence, now);
	if (w->calls[c].kind == CALL_JOIN)
		w->calls[c].epoch = n->join_epoch;
	w->calls[c].is_fresh = n->is_fresh;
	w->r->beats++;
	call_send(w, c);
}

void contact_leases(struct world *w, uint32_t node)
{
	later(w, 10 * SECOND_US, EVENT_LEASES, node, 0, 0);
	if (!w->nodes[node].is_running || w->nodes[node].is_wiping)
		return;
	for (uint32_t p = 0; p < w->o->projects; p++) {
		if (w->nodes[node].leases[p].amount > 0 || w->nodes[node].leases[p].is_unsure)
			lease_kick(w, node, p);
	}
}

static uint32_t after(const struct world *w, uint32_t node, uint32_t by)
{
	return (node - 1 + by) % w->o->nodes + 1;
}

/* What a beat's answer brings: the next three nodes, and the figures of random ones. */
static void tell(struct world *w, struct call *c)
{
	struct model_node *own = &w->db.nodes[c->node];

	own->figures = w->nodes[c->node].figures;
	memcpy(own->images, w->nodes[c->node].images, sizeof(own->images));
	own->seen_us = (int64_t)w->now_us + w->database_clock_us;
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t other = after(w, c->node, i + 1);
		const struct model_node *m = &w->db.nodes[other];

		c->watched[i] = (struct watch){0};
		if (!m->has_joined || m->is_lost || other == c->node)
			continue;
		c->watched[i] =
			(struct watch){.node = other, .epoch = m->epoch, .number = m->number};
		c->ages_us[i] =
			(uint64_t)MAX((int64_t)w->now_us + w->database_clock_us - m->seen_us, 0);
	}
	c->n_sample = 0;
	for (int i = 0; i < PLACEMENT_SAMPLE; i++) {
		uint32_t other = 1 + (uint32_t)draw_below(w, w->o->nodes);
		const struct model_node *m = &w->db.nodes[other];
		bool is_known = other == c->node;

		for (unsigned j = 0; j < c->n_sample; j++)
			is_known |= c->sample[j].node == other;
		if (is_known || !m->has_joined || m->is_lost || m->is_claimed)
			continue;
		c->sample[c->n_sample++] = (struct placement_node){
			.node = other, .abilities = 1, .has_spare = true, .figures = m->figures};
	}
}

/* A sandbox of a node that is fenced goes to one that the claimer's figures show. */
static void move_box(struct world *w, uint32_t box, uint32_t claimer)
{
	struct box *b = &w->boxes[box];
	struct node *by = &w->nodes[claimer], *old = &w->nodes[b->node], *n;
	struct placement_node self = {.node = claimer, .abilities = 1, .figures = by->figures};
	uint32_t to = placement_choose(&w->o->placement, &self, &by->view, class_need(b->class),
	                               NULL, 0, draw(w));
	struct lease *l;
	uint64_t number;

	n = &w->nodes[to];
	if (!to || to == b->node || !n->is_running || n->is_wiping ||
	    node_state(w, n) != FENCE_HELD || w->db.nodes[to].epoch != n->fence.epoch ||
	    !placement_fits(&(struct placement_node){.abilities = 1, .figures = n->figures},
	                    class_need(b->class)))
		return;
	l = &n->leases[b->project];
	number = lease_own(l);
	(void)lease_answered(
		l, number,
		model_own(&w->db, b->node, to, number, b->project, class_units(b->class)));
	lease_force(l, class_units(b->class));
	check_lease(w, to, b->project);
	if (!b->is_down) { /* it stands still there, and the node does not know */
		old->strays = xrealloc(old->strays, (old->n_strays + 1) * sizeof(*old->strays));
		old->strays[old->n_strays++] =
			(struct stray){b->project, (uint32_t)class_units(b->class)};
	}
	if (b->name && w->db.names[b->name].sandbox == b->id)
		w->db.names[b->name].node = to;
	box_unlink(w, box);
	box_link(w, box, to);
	if (b->is_down)
		box_run(w, box);
	w->r->claimed++;
}

static void claim(struct world *w, struct call *c)
{
	uint32_t node = c->seen.node, next;
	struct node *old = &w->nodes[node];
	uint64_t stopped_us = old->fence.right_us + w->o->fence.fence_after_us + old->stop_us;
	bool may_run = old->is_running && old->fence.is_in && node_clock(w, old) < stopped_us;

	c->result = model_claim(&w->db, node, c->seen.epoch, c->seen.number, c->seen.server)
	                    ? 0
	                    : -ESTALE;
	if (c->result < 0)
		return;
	w->r->claims++;
	if (old->died_us) {
		w->r->claims_of_dead++;
		w->r->claim_us_sum += w->now_us - old->died_us;
		w->r->claim_us_max = MAX(w->r->claim_us_max, w->now_us - old->died_us);
		old->died_us = 0;
	}
	for (uint32_t box = old->first_box; box; box = next) {
		next = w->boxes[box].next;
		if (!w->boxes[box].is_restore)
			continue;
		if (may_run && !w->boxes[box].is_down) {
			breaks(w, INVARIANT_EXCLUSIVE, "node %u is claimed while it may run", node);
			may_run = false;
		}
		move_box(w, box, c->node);
	}
}

/* The database has got the call. */
void contact_done(struct world *w, uint32_t call)
{
	struct call *c = &w->calls[call];

	if (!w->db.is_up)
		return;
	switch (c->kind) {
	case CALL_JOIN:
		c->total = model_join(&w->db, c->node, c->epoch, c->number, w->now_us, c->is_fresh);
		c->result = c->total ? 0 : -ESTALE;
		if (c->total && c->is_fresh)
			drop_down(w, c->node);
		if (!c->total)
			c->total = w->db.nodes[c->node].epoch;
		else
			tell(w, c);
		break;
	case CALL_BEAT:
		c->result =
			model_beat(&w->db, c->node, c->epoch, c->number, w->now_us) ? 0 : -ESTALE;
		if (c->result == 0)
			tell(w, c);
		break;
	case CALL_LEASE:
		c->result =
			model_lease(&w->db, c->node, c->epoch, c->project, &c->lease, &c->total);
		check_lease(w, c->node, c->project);
		break;
	case CALL_NAME:
		c->result = model_name(&w->db, c->node, c->epoch, c->number, c->name, c->sandbox);
		break;
	case CALL_NAME_FREE:
		c->result =
			model_name_free(&w->db, c->node, c->epoch, c->number, c->name, c->sandbox)
				? 0
				: -ESTALE;
		break;
	case CALL_CLAIM:
		claim(w, c);
		break;
	case CALL_LOSE:
		c->result = model_lose(&w->db, c->seen.node, c->seen.epoch, c->seen.number,
		                       c->seen.server)
		                    ? 0
		                    : -ESTALE;
		if (c->result == 0) {
			w->r->losses++;
			drop_down(w, c->seen.node);
		}
		break;
	}
	c->server = w->db.server;
	if (w->nodes[c->node].has_no_way_from)
		return;
	c->refs++;
	later(w, delay_us(w), EVENT_ANSWER, c->node, call, c->stamp);
}

static void act_on(struct world *w, uint32_t node, enum call_kind kind, const struct watch *seen)
{
	uint32_t call = call_new(w, node, kind);

	w->calls[call].seen = *seen;
	call_send(w, call);
}

static void watch_others(struct world *w, const struct call *c)
{
	struct node *n = &w->nodes[c->node];
	struct fence_rules rules = watch_rules(w);
	uint64_t now = node_clock(w, n);

	for (int i = 0; i < 3; i++) {
		const struct watch *told = &c->watched[i];
		struct watch *watch = &n->watches[i];
		bool may_claim;

		if (!told->node)
			continue;
		watch_saw(watch, told->node, told->epoch, told->number,
		          w->o->breakage == BREAK_SERVER ? 1 : c->server, now);
		may_claim = w->o->breakage == BREAK_DATABASE_CLOCK
		                    ? c->ages_us[i] > rules.fence_after_us + rules.margin_us
		                    : watch_may_claim(watch, &rules, now);
		if (watch_is_lost(watch, &rules, now)) {
			act_on(w, c->node, CALL_LOSE, watch);
		} else if (may_claim &&
		           (!w->db.nodes[told->node].is_claimed || draw_below(w, 8) == 0)) {
			act_on(w, c->node, CALL_CLAIM,
			       watch); /* again for what had found no room */
		}
	}
}

static void joined(struct world *w, struct call *c)
{
	struct node *n = &w->nodes[c->node];

	n->join_epoch = c->total;
	if (c->result < 0 || !fence_joined(&n->fence, c->number, c->total))
		return;
	n->is_fresh = false;
	n->died_us = 0;
	n->name_number = 0;
	for (uint32_t i = 0; i < n->n_strays; i++)
		lease_give(&n->leases[n->strays[i].project], n->strays[i].units);
	n->n_strays = 0;
	for (uint32_t p = 0; p < w->o->projects; p++)
		lease_joined(&n->leases[p], model_lease_of(&w->db, c->node, p)->amount);
}

static void beaten(struct world *w, struct call *c)
{
	struct node *n = &w->nodes[c->node];

	if (c->epoch != n->fence.epoch)
		return;
	if (c->result < 0) {
		fence_refused(&n->fence);
		n->join_epoch = n->fence.epoch;
		return;
	}
	if (!fence_answered(&n->fence, c->number))
		return;
	if (w->o->breakage == BREAK_SENT)
		n->fence.right_us = node_clock(w, n);
	check_exclusive(w, c->node);
	placement_sampled(&n->view, c->sample, c->n_sample);
	for (uint32_t p = 0; p < w->o->projects; p++) {
		if (!w->db.projects[p].is_wanted || n->leases[p].amount == n->leases[p].spent)
			continue;
		lease_recall(&n->leases[p]);
		lease_kick(w, c->node, p);
	}
}

void contact_answer(struct world *w, uint32_t call)
{
	struct call *c = &w->calls[call], copy;
	struct node *n = &w->nodes[c->node];

	if (c->was_answered || !n->is_running || n->boot != c->boot || n->is_wiping)
		return;
	/* Behind two seconds nobody waits for it; of beats the fence itself decides. */
	c->was_answered = true;
	copy = *c; /* what follows may send calls, which may move them */
	switch (copy.kind) {
	case CALL_JOIN:
		joined(w, &copy);
		break;
	case CALL_BEAT:
		beaten(w, &copy);
		if (copy.result == 0)
			watch_others(w, &copy);
		break;
	case CALL_LEASE:
		if (copy.epoch != n->fence.epoch)
			break;
		if (copy.result == 0)
			(void)lease_answered(&n->leases[copy.project], copy.lease.number,
			                     copy.total);
		else
			lease_failed(&n->leases[copy.project], copy.lease.number);
		check_lease(w, copy.node, copy.project);
		break;
	case CALL_NAME:
		if (w->creates[copy.create].stamp == copy.total)
			life_named(w, copy.create,
			           copy.epoch == n->fence.epoch ? copy.result : -ETIMEDOUT);
		break;
	case CALL_NAME_FREE:
		if (copy.result < 0)
			c->was_answered = false; /* said again below */
		break;
	case CALL_CLAIM:
	case CALL_LOSE:
		break;
	}
}

void contact_give_up(struct world *w, uint32_t call)
{
	struct call c = w->calls[call];
	struct node *n = &w->nodes[c.node];

	if (c.was_answered || !n->is_running || n->boot != c.boot)
		return;
	if (c.kind != CALL_BEAT && c.kind != CALL_JOIN)
		w->calls[call].was_answered = true;
	if (c.kind == CALL_LEASE && c.epoch == n->fence.epoch) {
		lease_failed(&n->leases[c.project], c.lease.number);
	} else if (c.kind == CALL_NAME && w->creates[c.create].stamp == c.total) {
		life_named(w, c.create, -ETIMEDOUT);
	} else if (c.kind == CALL_NAME_FREE) {
		uint32_t again = call_new(w, c.node, CALL_NAME_FREE);

		w->calls[again].name = c.name;
		w->calls[again].sandbox = c.sandbox;
		w->calls[again].number = ++n->name_number;
		call_send(w, again);
	}
}
