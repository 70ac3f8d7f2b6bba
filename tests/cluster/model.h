// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The database of a cluster, as its nodes see it: what each function does in one transaction, and
 * nothing else. It has no clock. What is committed without waiting for the disk (beats) can be
 * forgotten by model_promote(); all else stays.
 */
#include "cluster/fence.h"
#include "cluster/lease.h"
#include "cluster/placement.h"

/* Rules that the simulation can be told to break, each by leaving out what keeps it: an invariant
 * must then fail. */
enum breakage {
	BREAK_NOTHING,
	BREAK_MARGIN,         /* watchers wait for no margin */
	BREAK_SENT,           /* a right counts from the answer of a beat */
	BREAK_SERVER,         /* watchers do not notice that the database is another one */
	BREAK_DATABASE_CLOCK, /* watchers count by the database's clock */
	BREAK_NEWEST,         /* a claim is done though a newer beat has come */
	BREAK_EPOCH,          /* a claim leaves the epoch as it was */
	BREAK_LOST,           /* a lost node goes on */
	BREAK_NUMBERS,        /* late calls for leases are taken */
	BREAK_GRANT,          /* a node has what it asks for before the answer */
	BREAK_LIMIT,          /* the database grants what is wanted */
	BREAK_NAME,           /* names of a node are free as soon as it is fenced */
	BREAK_COUNT,
};
extern const char *const breakage_names[BREAK_COUNT];

#define MODEL_BEATS 8 /* that can be forgotten, of each node */

struct model_beat {
	uint64_t at_us, epoch, number;
};

struct model_node {
	uint64_t epoch, number;
	uint64_t name_number;                  /* of the last call for a name */
	struct model_beat stored[MODEL_BEATS]; /* a ring: beats */
	unsigned n_stored;
	bool is_lost, is_claimed, has_joined;
	struct placement_figures figures;
	uint64_t images[4];
	int64_t seen_us; /* when the newest beat was stored, by the database's clock */
};

struct model_lease {
	uint64_t amount, number;
};

struct model_project {
	uint64_t limit, leased;
	bool is_wanted; /* somebody has found nothing left */
};

struct model_name {
	uint32_t sandbox, node; /* 0 = free */
};

struct model {
	enum breakage breakage;
	uint64_t server; /* which start and timeline */
	bool is_up;
	uint32_t n_nodes, n_projects, n_names;
	struct model_node *nodes;   /* by number, from 1 */
	struct model_lease *leases; /* by node and project */
	struct model_project *projects;
	struct model_name *names;
};

void model_init(struct model *db, uint32_t n_nodes, uint32_t n_projects, uint32_t n_names);
void model_done(struct model *db);
struct model_lease *model_lease_of(struct model *db, uint32_t node, uint32_t project);

/* All take what a node says of itself first, and return false where its epoch is an old one. */
/* Follows the epoch that it names: a join that is late does nothing. The new epoch; 0: not done.
 * Fresh: the node has nothing, so what the database knows of it is free. */
uint64_t model_join(struct model *db, uint32_t node, uint64_t epoch, uint64_t number,
                    uint64_t now_us, bool is_fresh);
bool model_beat(struct model *db, uint32_t node, uint64_t epoch, uint64_t number, uint64_t now_us);
/* -ESTALE: an old epoch or number, nothing was done; else 0 and the whole amount. */
int model_lease(struct model *db, uint32_t node, uint64_t epoch, uint32_t project,
                const struct lease_call *call, uint64_t *ret_total);
/* 0, -EEXIST, or -ESTALE as above. */
int model_name(struct model *db, uint32_t node, uint64_t epoch, uint64_t number, uint32_t name,
               uint32_t sandbox);
bool model_name_free(struct model *db, uint32_t node, uint64_t epoch, uint64_t number,
                     uint32_t name, uint32_t sandbox);
/* Done only if the beat that was seen is still the newest, on the same server. */
bool model_claim(struct model *db, uint32_t node, uint64_t epoch, uint64_t number, uint64_t server);
bool model_lose(struct model *db, uint32_t node, uint64_t epoch, uint64_t number, uint64_t server);
/* The new owner of a claimed sandbox takes its quota over, under a number of its own lease. */
uint64_t model_own(struct model *db, uint32_t from, uint32_t to, uint64_t number, uint32_t project,
                   uint64_t n);
/* Another server goes on, which has not got the beats of the last lag_us. */
void model_promote(struct model *db, uint64_t now_us, uint64_t lag_us);
