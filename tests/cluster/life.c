// SPDX-License-Identifier: Apache-2.0
/* Creates from the client's call to the running sandbox, and ends. */
#include "world_private.h"

#include "cluster/route.h"

#include <assert.h>
#include <string.h>

#define UNIT_MIB 256 /* quotas of memory are leased in these */

static const struct placement_need needs[CLASSES] = {
	{.of = {250, 512, 2048}, .abilities = 1},
	{.of = {500, 1024, 4096}, .abilities = 1},
	{.of = {2000, 4096, 8192}, .abilities = 1},
};

uint64_t class_units(uint32_t class)
{
	return needs[class].of[PLACEMENT_MEMORY_MIB] / UNIT_MIB;
}

const struct placement_need *class_need(uint32_t class)
{
	return &needs[class];
}

static uint32_t draw_class(struct world *w)
{
	uint64_t x = draw_below(w, 10);

	return x < 6 ? 0 : x < 9 ? 1 : 2;
}

static uint32_t draw_project(struct world *w)
{
	double x = (double)(draw(w) >> 11) * 0x1p-53 * w->projects[w->o->projects - 1].weight;
	uint32_t low = 0, high = w->o->projects - 1;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (w->projects[middle].weight > x)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static uint32_t draw_template(struct world *w)
{
	double x = (double)(draw(w) >> 11) * 0x1p-53 * w->template_weight[TEMPLATES - 1];
	uint32_t t = 0;

	while (w->template_weight[t] < x)
		t++;
	return t;
}

static bool has_bit(const uint64_t *bits, uint32_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

/* One in, and where there are more than a quarter of all, one out. */
static void take_image(struct world *w, struct node *n, uint32_t template)
{
	int count = 0;

	n->images[template / 64] |= UINT64_C(1) << (template % 64);
	for (int i = 0; i < 4; i++)
		count += __builtin_popcountll(n->images[i]);
	while (count > TEMPLATES / 4) {
		uint32_t out = (uint32_t)draw_below(w, TEMPLATES);

		if (out == template || !has_bit(n->images, out))
			continue;
		n->images[out / 64] &= ~(UINT64_C(1) << (out % 64));
		count--;
	}
}

static void change_figures(struct world *w, uint32_t node, const struct placement_need *need,
                           int by)
{
	struct node *n = &w->nodes[node];

	for (int i = 0; i < PLACEMENT_WHAT_COUNT; i++) {
		n->figures.committed[i] += (uint64_t)by * need->of[i];
		if (n->figures.committed[i] > n->figures.capacity[i])
			breaks(w, INVARIANT_ROOM, "node %u has more than fits", node);
	}
	n->figures.version++;
}

void box_link(struct world *w, uint32_t box, uint32_t node)
{
	struct box *b = &w->boxes[box];
	struct node *n = &w->nodes[node];

	b->node = node;
	b->prev = 0;
	b->next = n->first_box;
	if (b->next)
		w->boxes[b->next].prev = box;
	n->first_box = box;
	n->n_boxes++;
	change_figures(w, node, &needs[b->class], 1);
}

void box_unlink(struct world *w, uint32_t box)
{
	struct box *b = &w->boxes[box];
	struct node *n = &w->nodes[b->node];

	if (b->prev)
		w->boxes[b->prev].next = b->next;
	else
		n->first_box = b->next;
	if (b->next)
		w->boxes[b->next].prev = b->prev;
	n->n_boxes--;
	change_figures(w, b->node, &needs[b->class], -1);
}

void box_run(struct world *w, uint32_t box)
{
	struct box *b = &w->boxes[box];
	struct project *p = &w->projects[b->project];

	b->is_down = false;
	w->live++;
	w->r->live_max = MAX(w->r->live_max, w->live);
	p->used += class_units(b->class);
	if (p->used > w->db.projects[b->project].limit)
		breaks(w, INVARIANT_USED, "project %u uses %lu of %lu", b->project, p->used,
		       w->db.projects[b->project].limit);
	if (b->name && ++w->name_holders[b->name] > 1)
		breaks(w, INVARIANT_NAME, "name %u is held twice, now on node %u", b->name,
		       b->node);
}

void box_stop(struct world *w, uint32_t box)
{
	struct box *b = &w->boxes[box];

	b->is_down = true;
	w->live--;
	w->projects[b->project].used -= class_units(b->class);
	if (b->name)
		w->name_holders[b->name]--;
}

void check_lease(struct world *w, uint32_t node, uint32_t project)
{
	const struct node *n = &w->nodes[node];
	const struct lease *l = &n->leases[project];
	const struct model_project *p = &w->db.projects[project];
	uint64_t row = model_lease_of(&w->db, node, project)->amount;

	if (p->leased > p->limit)
		breaks(w, INVARIANT_LEASED, "project %u has leased %lu of %lu", project, p->leased,
		       p->limit);
	if (n->is_running && n->fence.is_in && w->db.nodes[node].epoch == n->fence.epoch &&
	    l->amount > row)
		breaks(w, INVARIANT_KNOWN, "node %u believes %lu of project %u, its row has %lu",
		       node, l->amount, project, row);
}

void lease_kick(struct world *w, uint32_t node, uint32_t project)
{
	struct node *n = &w->nodes[node];
	struct lease *l = &n->leases[project];
	struct lease_call call;
	uint32_t c;

	if (!fence_allows(node_state(w, n), FENCE_AGREE) || !lease_next(l, node_clock(w, n), &call))
		return;
	c = call_new(w, node, CALL_LEASE);
	w->calls[c].project = project;
	w->calls[c].lease = call;
	w->calls[c].number = call.number;
	if (call.least > l->amount)
		w->r->raises++;
	else
		w->r->returns++;
	if (w->o->breakage == BREAK_GRANT)
		l->amount = call.total;
	call_send(w, c);
}

static struct placement_node self_of(const struct world *w, const struct create *c, uint32_t node)
{
	const struct node *n = &w->nodes[node];
	const struct lease *l = &n->leases[c->project];
	uint64_t even = w->db.projects[c->project].leased / w->o->nodes;

	return (struct placement_node){
		.node = node,
		.abilities = 1,
		.figures = n->figures,
		.has_spare = true,
		.has_image = has_bit(n->images, c->template),
		.has_lease = l->amount > l->spent,
		.above_even = (uint32_t)((l->spent > even ? l->spent - even : 0) / 4),
	};
}

static void add_tried(struct create *c, uint32_t node)
{
	if (c->n_tried < PLACEMENT_TRIES_MAX)
		c->tried[c->n_tried++] = node;
}

void life_arrive(struct world *w)
{
	uint32_t create = create_new(w), origin = 0;
	struct create *c = &w->creates[create];
	uint32_t few = MAX(w->o->nodes / 10, 1);

	later(w, (uint64_t)draw_exponential(w, 1e6 * w->o->life / w->o->live), EVENT_ARRIVAL, 0, 0,
	      0);
	w->r->creates++;
	w->point_creates++;
	for (int i = 0; i < 10 && !origin; i++) { /* as a balancer that asks for health */
		uint32_t n = 1 + (uint32_t)draw_below(
					 w, draw_below(w, 1000) < w->o->sticky ? few : w->o->nodes);

		if (w->nodes[n].is_running &&
		    fence_allows(node_state(w, &w->nodes[n]), FENCE_SERVE))
			origin = n;
	}
	c->project = draw_project(w);
	c->class = draw_class(w);
	c->template = draw_template(w);
	c->is_restore = draw_below(w, 20) == 0;
	c->name = draw_below(w, 20) == 0 ? 1 + (uint32_t)draw_below(w, w->o->names) : 0;
	c->origin = origin;
	if (!origin) {
		w->r->unavailable++;
		create_free(w, create);
		return;
	}
	c->boot = w->nodes[origin].boot;
	life_place(w, create);
}

void life_place(struct world *w, uint32_t create)
{
	struct create *c = &w->creates[create];
	struct node *n = &w->nodes[c->origin];
	struct placement_node self = self_of(w, c, c->origin);

	for (unsigned i = 0; i < n->view.n; i++) {
		struct placement_node *other = &n->view.nodes[i];

		other->has_image = has_bit(w->db.nodes[other->node].images, c->template);
		other->has_lease = w->nodes[other->node].leases[c->project].amount > 0;
	}
	c->target = c->n_tried < PLACEMENT_TRIES_MAX
	                    ? placement_choose(&w->o->placement, &self, &n->view, &needs[c->class],
	                                       c->tried, c->n_tried, draw(w))
	                    : 0;
	c->is_proxied = c->target != c->origin;
	if (!c->target) {
		w->r->no_room++;
		create_free(w, create);
		return;
	}
	if (!c->is_proxied) {
		life_admit(w, create);
		return;
	}
	placement_sent(&n->view, c->target, &needs[c->class]);
	later(w, 500 + draw_below(w, 1000), EVENT_ADMIT, c->target, create, c->stamp);
}

/* The node has no room, or cannot be reached: its origin tries another. */
static void refuse(struct world *w, uint32_t create)
{
	struct create *c = &w->creates[create];

	w->r->refused_full++;
	add_tried(c, c->target);
	later(w, c->is_proxied ? 1000 : 0, EVENT_REFUSED, c->origin, create, c->stamp);
}

void life_refused(struct world *w, uint32_t create)
{
	struct create *c = &w->creates[create];
	struct node *n = &w->nodes[c->origin];

	if (!n->is_running || n->boot != c->boot) {
		w->r->unavailable++;
		create_free(w, create);
		return;
	}
	if (c->is_proxied)
		placement_answered(&n->view, c->target, &needs[c->class],
		                   &w->nodes[c->target].figures);
	life_place(w, create);
}

static void fail(struct world *w, uint32_t create, uint64_t *counter)
{
	struct create *c = &w->creates[create];

	if (c->has_lease && w->nodes[c->target].is_running)
		lease_give(&w->nodes[c->target].leases[c->project], class_units(c->class));
	(*counter)++;
	create_free(w, create);
}

static void start(struct world *w, uint32_t create)
{
	struct create *c = &w->creates[create];
	struct node *n = &w->nodes[c->target];
	uint32_t box = box_new(w);
	struct box *b = &w->boxes[box];

	b->project = c->project;
	b->class = c->class;
	b->name = c->name;
	b->id = c->sandbox;
	b->is_restore = c->is_restore;
	b->born = c->target;
	if (!has_bit(n->images, c->template)) {
		w->r->cold_images++;
		take_image(w, n, c->template);
	}
	box_link(w, box, c->target);
	box_run(w, box);
	later(w, (uint64_t)draw_exponential(w, 1e6 * w->o->life), EVENT_END, c->target, box,
	      b->stamp);
	if (c->is_proxied) {
		placement_answered(&w->nodes[c->origin].view, c->target, &needs[c->class],
		                   &n->figures);
		w->r->proxied++;
		w->point_proxied++;
	}
	w->r->made++;
	create_free(w, create);
}

static bool has_room(const struct node *n, uint32_t class)
{
	struct placement_node self = {.abilities = 1, .figures = n->figures};

	return placement_fits(&self, &needs[class]);
}

static void ask_for_name(struct world *w, uint32_t create)
{
	struct create *c = &w->creates[create];
	uint32_t call = call_new(w, c->target, CALL_NAME);

	if (!c->sandbox)
		c->sandbox = (uint32_t)c->stamp;
	w->calls[call].number = ++w->nodes[c->target].name_number;
	w->calls[call].create = create;
	w->calls[call].total = c->stamp;
	w->calls[call].name = c->name;
	w->calls[call].sandbox = c->sandbox;
	call_send(w, call);
}

/* Its lease has too little: asks for more, and after the first answer waits until the others have
 * given back what they do not need. */
static void wait_for_lease(struct world *w, uint32_t create)
{
	struct create *c = &w->creates[create];
	const struct model_project *p = &w->db.projects[c->project];
	struct node *n = &w->nodes[c->target];

	if (!fence_allows(node_state(w, n), FENCE_AGREE)) {
		fail(w, create, &w->r->unavailable);
		return;
	}
	if (c->attempt == 2) {
		fail(w, create,
		     w->projects[c->project].used + class_units(c->class) > p->limit
		             ? &w->r->over_quota
		             : &w->r->under_quota);
		return;
	}
	lease_want(&n->leases[c->project], class_units(c->class));
	lease_kick(w, c->target, c->project);
	later(w, c->attempt++ == 0 ? 30000 : 3 * SECOND_US, EVENT_ADMIT, c->target, create,
	      c->stamp);
}

void life_admit(struct world *w, uint32_t create)
{
	struct create *c = &w->creates[create];
	struct node *n = &w->nodes[c->target];

	if (c->attempt == 0 && !c->has_lease)
		c->boot = c->is_proxied ? c->boot : n->boot;
	if (!n->is_running || !fence_allows(node_state(w, n), FENCE_SERVE) ||
	    !has_room(n, c->class)) {
		refuse(w, create);
		return;
	}
	check_exclusive(w, c->target);
	if (lease_take(&n->leases[c->project], class_units(c->class)) < 0) {
		wait_for_lease(w, create);
		return;
	}
	c->has_lease = true;
	if (!c->name) {
		start(w, create);
	} else if (fence_allows(node_state(w, n), FENCE_AGREE)) {
		c->boot = n->boot;
		ask_for_name(w, create);
	} else {
		fail(w, create, &w->r->unavailable);
	}
}

void life_named(struct world *w, uint32_t create, int result)
{
	struct create *c = &w->creates[create];
	struct node *n = &w->nodes[c->target];

	if (!n->is_running || n->boot != c->boot) {
		c->has_lease = false; /* it is gone with the node */
		fail(w, create, &w->r->unavailable);
	} else if (result == 0 && fence_allows(node_state(w, n), FENCE_SERVE) &&
	           has_room(n, c->class)) {
		start(w, create);
	} else if (result == -ESTALE && c->attempt < 5) {
		c->attempt = 5;
		ask_for_name(w, create);
	} else {
		if (result != -EEXIST) {
			uint32_t call = call_new(w, c->target, CALL_NAME_FREE);

			w->calls[call].name = c->name;
			w->calls[call].sandbox = c->sandbox;
			w->calls[call].number = ++n->name_number;
			call_send(w, call);
		}
		fail(w, create, result == -EEXIST ? &w->r->names_taken : &w->r->unavailable);
	}
}

void life_end(struct world *w, uint32_t box)
{
	struct box *b = &w->boxes[box];
	struct node *n = &w->nodes[b->node];

	/* What stands still ends later. */
	if (b->is_down || (b->is_restore && !fence_allows(node_state(w, n), FENCE_EXCLUSIVE))) {
		later(w, 5 * SECOND_US, EVENT_END, b->node, box, b->stamp);
		return;
	}
	lease_give(&n->leases[b->project], class_units(b->class));
	if (b->name) {
		uint32_t call = call_new(w, b->node, CALL_NAME_FREE);

		w->calls[call].name = b->name;
		w->calls[call].sandbox = b->id;
		w->calls[call].number = ++n->name_number;
		call_send(w, call);
	}
	box_stop(w, box);
	box_unlink(w, box);
	box_free(w, box);
}

void life_fill(struct world *w)
{
	for (uint32_t i = 0, tries = 0; i < w->o->live && tries < 3 * w->o->live; tries++) {
		uint32_t node = 1 + (uint32_t)draw_below(w, w->o->nodes), class = draw_class(w);
		uint32_t project = draw_project(w);
		struct model_project *p = &w->db.projects[project];
		struct node *n = &w->nodes[node];
		uint64_t units = class_units(class);
		uint32_t box;

		/* The larger nodes get theirs. */
		if (n->figures.capacity[0] * draw_below(w, 1000) < w->capacity[0] * 500 ||
		    !has_room(n, class) || p->leased + units > p->limit)
			continue;
		box = box_new(w);
		w->boxes[box].project = project;
		w->boxes[box].class = class;
		w->boxes[box].is_restore = draw_below(w, 20) == 0;
		w->boxes[box].born = node;
		p->leased += units;
		model_lease_of(&w->db, node, project)->amount += units;
		n->leases[project].amount += units;
		n->leases[project].spent += units;
		box_link(w, box, node);
		box_run(w, box);
		later(w, (uint64_t)draw_exponential(w, 1e6 * w->o->life), EVENT_END, node, box,
		      w->boxes[box].stamp);
		i++;
	}
}

static bool is_alive(uint32_t node, void *arg)
{
	const struct world *w = arg;

	return w->nodes[node].is_running;
}

/* What a node knows of an id without asking: its own, and where those went that have its tag. */
static struct route_facts facts_of(struct world *w, const struct box *b, uint32_t node,
                                   uint32_t from)
{
	bool runs_here = b->node == node && !b->is_down;

	return (struct route_facts){
		.self = node,
		.hop_from = from,
		.tagged = b->born,
		.forward = b->born == node && b->node != node ? b->node : 0,
		.is_own = runs_here,
		.is_alive = is_alive,
		.arg = w,
	};
}

void life_call(struct world *w)
{
	uint32_t box = 1 + (uint32_t)draw_below(w, w->n_boxes_size);
	uint32_t origin = 1 + (uint32_t)draw_below(w, w->o->nodes), node = 0;
	const struct box *b = &w->boxes[box];
	struct route_facts f;
	struct route r = {0};
	enum route_step step;

	if (b->stamp == 0 || !w->nodes[origin].is_running)
		return;
	w->r->calls++;
	f = facts_of(w, b, origin, 0);
	step = route_first(&r, &f, &node);
	while (step == ROUTE_HOP || step == ROUTE_ASK) {
		struct route_facts at;
		uint32_t named = 0;

		if (step == ROUTE_ASK) {
			step = route_told(&r, &f, b->node, &node);
			continue;
		}
		at = facts_of(w, b, node, origin);
		switch (route_first(&(struct route){0}, &at, &named)) {
		case ROUTE_HERE:
			w->r->calls_hopped++;
			step = ROUTE_HERE;
			break;
		case ROUTE_MOVED:
			step = route_answered(&r, &f, ROUTE_ANSWER_MOVED, named, &node);
			break;
		default:
			step = route_answered(&r, &f, ROUTE_ANSWER_NOT_FOUND, 0, &node);
			break;
		}
	}
	if (step != ROUTE_HERE)
		w->r->calls_failed++;
	if (!b->is_down && w->nodes[b->node].is_running && step != ROUTE_HERE)
		breaks(w, INVARIANT_ROUTE, "a call from node %u ended with step %d, not on node %u",
		       origin, (int)step, b->node);
}
