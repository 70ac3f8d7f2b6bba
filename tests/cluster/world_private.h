// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the files of the simulation share. */
#include "world.h"

#include "base/units.h"

#define TEMPLATES 200
#define CLASSES   3

enum event_kind {
	EVENT_ARRIVAL,  /* the next create of a client */
	EVENT_ADMIT,    /* it reaches the node that was chosen */
	EVENT_REFUSED,  /* its origin hears that the node is full */
	EVENT_END,      /* of a sandbox */
	EVENT_BEAT,     /* a node's timer */
	EVENT_LEASES,   /* likewise: looks for what can go back */
	EVENT_WIPED,    /* a lost node has ended all */
	EVENT_DATABASE, /* a call reaches the database */
	EVENT_ANSWER,   /* its answer reaches the node */
	EVENT_GIVE_UP,  /* the node waits for it no more */
	EVENT_CRASH,
	EVENT_BOOT,
	EVENT_CUT,
	EVENT_MEND,
	EVENT_FAILOVER,
	EVENT_PROMOTED,
	EVENT_CLOCK, /* the database's clock is set */
	EVENT_POINT,
};

struct event {
	uint64_t at_us;
	enum event_kind kind;
	uint32_t node, item; /* item: a create, sandbox, or call, by kind */
	uint64_t stamp;      /* of the item: an event for one that is gone does nothing */
};

enum call_kind {
	CALL_JOIN,
	CALL_BEAT,
	CALL_LEASE,
	CALL_NAME,
	CALL_NAME_FREE,
	CALL_CLAIM,
	CALL_LOSE
};

/* A call to the database, from when it is sent until nothing of it is under way. */
struct call {
	enum call_kind kind;
	uint64_t stamp;
	uint32_t node, boot;
	uint64_t epoch, number;
	bool is_fresh, was_answered;
	unsigned refs; /* events under way */
	uint32_t project, create, name, sandbox;
	struct lease_call lease;
	struct watch seen; /* of a claim */
	/* The answer: */
	int result;
	uint64_t total, server;
	struct watch watched[3];
	uint64_t ages_us[3]; /* by the database's clock */
	struct placement_node sample[PLACEMENT_SAMPLE];
	unsigned n_sample;
	uint32_t next_free;
};

struct create {
	uint64_t stamp;
	uint32_t project, class, template, name, origin, target;
	uint32_t boot; /* of the node it is at */
	uint32_t tried[PLACEMENT_TRIES_MAX];
	unsigned n_tried, attempt;
	bool is_restore, has_lease, is_proxied;
	uint32_t sandbox; /* the id that a name was taken for */
	uint32_t next_free;
};

struct box { /* a sandbox */
	uint64_t stamp;
	uint32_t project, class, name, node, born, next, prev, next_free;
	uint32_t id; /* that its name is registered with */
	bool is_restore, is_down;
};

struct stray {
	uint32_t project, units;
};

struct node {
	bool is_running, is_wiping;
	bool has_no_way_to, has_no_way_from; /* the database */
	uint32_t boot;
	int32_t clock_ppm;
	uint64_t clock_offset_us, stop_us; /* how long standing still takes it */
	uint64_t died_us;
	struct fence fence;
	struct watch watches[3];
	struct placement_view view;
	struct placement_figures figures;
	struct lease *leases; /* by project */
	uint64_t name_number;
	uint32_t first_box, n_boxes;
	uint64_t images[4];
	uint64_t join_epoch;  /* that the next join follows */
	bool is_fresh;        /* has nothing that the database could know */
	struct stray *strays; /* claimed from it while it lived; it stands still until it knows */
	uint32_t n_strays;
};

struct project {
	uint64_t used; /* really, on all nodes */
	double weight; /* the sum of all up to it */
};

struct world {
	const struct world_options *o;
	struct world_report *r;
	struct model db;
	uint64_t now_us, random, stamp;
	int64_t database_clock_us; /* how far it is off */
	struct event *heap;
	size_t n_heap, heap_size;
	struct node *nodes;
	struct project *projects;
	uint32_t *name_holders;
	struct box *boxes;
	uint32_t n_boxes_size, free_box, live;
	struct create *creates;
	uint32_t n_creates, free_create;
	struct call *calls;
	uint32_t n_calls, free_call;
	uint64_t capacity[PLACEMENT_WHAT_COUNT];
	uint64_t point_creates, point_proxied;
	double template_weight[TEMPLATES];
};

/* pool.c: time, chance and memory */
uint64_t draw(struct world *w);
uint64_t draw_below(struct world *w, uint64_t n);
uint64_t delay_us(struct world *w); /* of a message: milliseconds, now and then seconds */
double draw_exponential(struct world *w, double mean);
void later(struct world *w, uint64_t in_us, enum event_kind kind, uint32_t node, uint32_t item,
           uint64_t stamp);
bool next_event(struct world *w, struct event *ret);
uint32_t box_new(struct world *w);
void box_free(struct world *w, uint32_t box);
uint32_t create_new(struct world *w);
void create_free(struct world *w, uint32_t create);
uint32_t call_new(struct world *w, uint32_t node, enum call_kind kind);
void call_unref(struct world *w, uint32_t call);
void call_send(struct world *w, uint32_t call);
void breaks(struct world *w, enum invariant what, const char *fmt, ...) printf_like(3, 4);
uint64_t node_clock(const struct world *w, const struct node *n);
enum fence_state node_state(const struct world *w, const struct node *n);

/* life.c: creates and ends */
uint64_t class_units(uint32_t class);
const struct placement_need *class_need(uint32_t class);
void life_fill(struct world *w);
void life_arrive(struct world *w);
void life_place(struct world *w, uint32_t create);
void life_admit(struct world *w, uint32_t create);
void life_refused(struct world *w, uint32_t create);
void life_named(struct world *w, uint32_t create, int result);
void life_end(struct world *w, uint32_t box);
void box_stop(struct world *w, uint32_t box); /* it does not run any more */
void box_run(struct world *w, uint32_t box);
void box_link(struct world *w, uint32_t box, uint32_t node);
void box_unlink(struct world *w, uint32_t box);
void lease_kick(struct world *w, uint32_t node, uint32_t project);
void check_lease(struct world *w, uint32_t node, uint32_t project);
void life_call(struct world *w); /* a client's call to a sandbox that runs */

/* contact.c: nodes and the database */
void contact_beat(struct world *w, uint32_t node);
void contact_leases(struct world *w, uint32_t node);
void contact_wiped(struct world *w, uint32_t node);
void contact_done(struct world *w, uint32_t call);
void contact_answer(struct world *w, uint32_t call);
void contact_give_up(struct world *w, uint32_t call);
void check_exclusive(struct world *w, uint32_t node);
void node_drop_all(struct world *w, uint32_t node); /* nothing runs there any more */

/* faults.c */
void faults_start(struct world *w);
void faults_on_event(struct world *w, const struct event *e);
