// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A cluster under a virtual clock: nodes that decide with src/cluster, a database (model.h), and a
 * network that delays, loses and reorders their messages. Everything follows from the seed.
 *
 * The world knows the truth, which no node knows. After each step that could break one, the
 * invariants are checked against it:
 *
 *	leased    the leases of a project do not exceed its limit, in the database
 *	known     no node believes that it has more than its row says
 *	used      what really runs of a project does not exceed its limit, on all nodes together
 *	name      a name belongs to at most one running sandbox
 *	exclusive what was claimed does not run on its old node any more
 *	room      no node has more than fits
 *	route     a call reaches the sandbox wherever it is, in the hops that route.h allows
 */
#include "model.h"

#include "cluster/watch.h"

enum invariant {
	INVARIANT_LEASED,
	INVARIANT_KNOWN,
	INVARIANT_USED,
	INVARIANT_NAME,
	INVARIANT_EXCLUSIVE,
	INVARIANT_ROOM,
	INVARIANT_ROUTE,
	INVARIANT_COUNT
};
extern const char *const invariant_names[INVARIANT_COUNT];

struct world_options {
	uint64_t seed;
	uint32_t nodes, projects, names;
	uint32_t live;    /* sandboxes that run at a time */
	uint32_t load;    /* how full that makes the cluster, in thousandths */
	uint32_t seconds; /* of virtual time */
	uint32_t life;    /* how long a sandbox lives on average, in seconds */
	uint32_t sticky;  /* of 1000 creates, so many come to one node in ten */
	uint32_t late_of; /* with faults, one call of so many is late by seconds */
	bool has_faults;  /* nodes die, links are cut one way or both, calls are late, the database
	                     fails over */
	enum breakage breakage;
	struct placement_rules placement;
	struct fence_rules fence;
};
extern const struct world_options world_usual;

struct world_point { /* at one moment */
	uint32_t at_s;
	uint32_t load, fullest, emptiest; /* in thousandths; the fullest and emptiest node */
	uint32_t proxied;                 /* of 1000 creates since the point before */
};

struct world_report {
	uint64_t steps, creates, made, proxied, cold_images;
	uint64_t refused_full; /* by a node, and tried elsewhere */
	uint64_t no_room;      /* told to the client: capacity */
	uint64_t over_quota;   /* told to the client, and the project really had no more */
	uint64_t under_quota;  /* told to the client though another node had unspent quota */
	uint64_t unavailable;  /* told to the client: the node had no contact */
	uint64_t names_taken;
	uint64_t raises, returns; /* calls for more of a lease, and for less */
	uint64_t beats;
	uint64_t crashes, cuts, failovers, claims, claimed, losses;
	uint64_t calls, calls_hopped, calls_failed;
	uint64_t claim_us_sum, claim_us_max, claims_of_dead; /* from death to claim */
	uint64_t pressed_used,
		pressed_limit; /* of the projects that want more than they may have */
	uint32_t fullest, live_max;
	uint64_t fullest_sum;
	struct world_point *points; /* one each 10 s */
	unsigned n_points;
	uint64_t broken[INVARIANT_COUNT];
	char first[240]; /* what broke first */
};

/* *ret is filled whatever is broken. */
void world_run(const struct world_options *options, struct world_report *ret);
uint64_t world_broken(const struct world_report *r); /* how many times, of all invariants */
void world_report_done(struct world_report *r);
