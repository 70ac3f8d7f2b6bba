// SPDX-License-Identifier: Apache-2.0
#pragma once
/* How many spares of each kind there should be (pool_demand.c); and what the pool's files
 * share. */
#include "sandbox/model/ops.h"
#include "sandbox/pool/pool.h"

#define LANGUAGES_MAX 4

/* The cost of a spare, by recent measurements. */
struct cost {
	uint64_t fill_us; /* from ask to ready */
	uint64_t bytes;
};

struct demand {
	struct list link;          /* the default size first */
	uint32_t engine;           /* its number */
	char template_id[ID_SIZE]; /* "" = host */
	struct guest_limits limits;
	bool has_door; /* network_ahead() */
	uint64_t owed, owed_at_us;
	uint64_t target;                 /* in thousandths, before any bound */
	uint64_t claims;                 /* fading */
	size_t wanted;                   /* target, bounded */
	size_t surplus;                  /* of ready ones; while pool_fill.c ends them */
	struct reservation *reservation; /* that it is of; NULL: learnt from claims */
};

/* A project that has recently made creates that a spare would fit. */
struct claimer {
	struct list link;    /* the next one to have a spare made is first */
	struct share *share; /* NULL: there are no shares, and all are one */
	size_t owed;         /* claims for which no spare was started yet */
	uint64_t last_us;    /* when it asked last */
};

struct spare {
	struct list link; /* in order of creation */
	struct pool *pool;
	struct sandbox *s;
	struct demand *demand; /* NULL: its demand is gone */
	struct share *share;   /* that is charged for making it */
	uint64_t begun_us;
	bool is_ready;
	bool is_seed; /* to be saved as a warm copy (warm_copy.c), and of no other use */
	uint64_t usage_tag;
};

struct pool {
	struct fleet *fleet;
	struct loop *loop;
	struct pool_timing timing;
	const struct language *languages[LANGUAGES_MAX];
	size_t n_languages;
	struct list demands, spares, claimers;
	struct list reservations; /* pool_reservation.c */
	struct loop_timer *expiry;
	size_t n_demands;
	bool is_open;
	struct loop_timer *soon, *beat;
	struct cost costs[ENGINES_MAX + 1];
	uint64_t not_before_us, again_us; /* after failures */
	unsigned n_failures;              /* one after the other */
	uint64_t quiet_until_us;          /* after a claim */
	uint64_t hits, misses;
	loop_fn closed;
	void *closed_arg;
	bool has_tried; /* an engine that nobody had tried */
};

void demands_init(struct pool *p);
void demands_done(struct pool *p);
/* Sets the targets, by the room that there is now. */
void demands_look(struct pool *p);
bool demands_fade(struct pool *p); /* a beat: true if there is nothing left to fade */

struct demand_kind { /* borrowed */
	uint32_t engine;
	const char *template_id;
	const struct guest_limits *limits;
	bool has_door;
};
struct demand_kind demand_kind_of(const struct spare_kind *kind);
bool demand_is_of_kind(const struct demand *demand, const struct demand_kind *kind);
void demand_set(struct demand *demand, const struct spare_kind *kind);
/* Takes its spares from it: they are of no use any more, and end soon. */
void demand_clear(struct pool *p, const struct demand *demand);
/* Its template is there, and what its spares start from. */
bool demand_can_fill(const struct pool *p, const struct demand *demand);
/* NULL: too many are in use. */
struct demand *demand_find(struct pool *p, const struct demand_kind *kind);
/* Of the same kind but for the door; NULL: there is none. */
struct demand *demand_without_door(struct pool *p, const struct demand *demand);
void demand_claim(struct pool *p, struct demand *demand);

/* pool.c: of a demand, or (NULL) of all */
size_t pool_count(const struct pool *p, const struct demand *demand, bool only_ready);

/* pool_fill.c */
/* Creates of that share, or of all if there are no shares, are under way. */
bool pool_has_creates(const struct pool *p, const struct share *share);
void pool_fill_up(struct pool *p);
void pool_end_surplus(struct pool *p); /* the oldest are ended first */
/* Logged once for a series of failures; creates start without a spare meanwhile. */
void pool_back_off(struct pool *p, const struct err *err);
/* Notes the claim. Returns the spare, or NULL if the project would have more than its part. */
struct spare *pool_claim(struct pool *p, struct share *share, const struct demand *demand,
                         struct spare *spare);

/* pool_spare.c */
bool spare_is_of_use(const struct spare *spare);    /* ready or not yet; not one that is ending */
struct sandbox *spare_release(struct spare *spare); /* it is none of the pool's any more */
