// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * How far each chain has been pushed to a store, in memory and in the database. A store that
 * nothing was pushed to before begins with what there is at that moment; a chain that comes later
 * is pushed from its first entry on. So entries that retention removes before they are pushed are
 * known to be missing.
 */
#include "audit/sink.h"
#include "event/verify.h"
#include "store/places/audit.h"

#include <uthash.h>

struct object_place { /* of a chain */
	char chain[CHAIN_NAME_SIZE];
	char project_id[sizeof(((struct event_chain_status *)NULL)->project_id)];
	bool is_audit;
	uint64_t seq;             /* pushed up to here */
	uint64_t upto, sealed_us; /* of the piece that is under way; 0: none */
	uint64_t begin_seq;       /* the pushing began behind this one */
	char begin_hash[CHAIN_HEX_SIZE];
	bool is_lossy; /* entries were removed unsent, and it was not sent since */
	uint64_t lost_after, lost_upto, told_upto;
	UT_hash_handle hh;
};

struct object_places {
	const char *sink; /* its name in the rows; borrowed */
	struct event_log *events;
	struct sink_status *status;
	struct store_audit *rows;
	struct object_place *all; /* by chain */
	bool is_first;            /* nothing was pushed to this store before */
};

/* sink, events and status are set. */
must_check int object_places_open(struct object_places *places, struct store *store,
                                  struct err *err);
void object_places_close(struct object_places *places);
/* Made if there is none. */
struct object_place *object_places_find(struct object_places *places,
                                        const struct event_chain_status *chain);
must_check int object_places_save(struct object_places *places, const struct object_place *place);
uint64_t object_places_waiting(const struct object_places *places); /* entries */
/* What is gone up to here was not sent. Told when it begins, and once more when the chain is sent
 * again behind it: an entry about each step between would push out the next ones. */
void object_places_lost(struct object_places *places, struct object_place *place, uint64_t upto);
void object_places_sent_again(struct object_places *places, struct object_place *place);
