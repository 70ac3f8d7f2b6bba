// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The rows of the event log. Entries are added at the end and removed at the beginning of their
 * chain. The row that says where the chain begins and ends is changed in the same transaction, so
 * the two never disagree. src/event decides what is hashed.
 *
 * Entries from before there was a chain for each project are in one former chain. It only gets
 * shorter. Their places are the lowest.
 */
#include "base/id.h"
#include "store/store.h"

#define EVENT_HASH_SIZE  32
#define EVENT_CHAIN_SIZE (ID_SIZE + 8)

struct event_row {
	uint64_t place;      /* in the order of all entries */
	uint64_t seq, at_us; /* seq: its number in its chain */
	const char *type, *project_id, *sandbox_id, *exec_id, *key_id, *request_id; /* "" = none */
	const char *person;         /* JSON of who it was; "" = no person is known */
	const char *client, *agent; /* "" = none */
	const char *chain;          /* the one that it is added to; not read */
	const char *data;           /* JSON */
	unsigned char prev[EVENT_HASH_SIZE], hash[EVENT_HASH_SIZE];
};
struct event_chain_row {
	char project_id[EVENT_CHAIN_SIZE]; /* "" = entries of no project; perhaps "/" and a word
	                                      follow */
	uint64_t anchor_seq, head_seq;     /* 0 = none yet */
	unsigned char anchor_hash[EVENT_HASH_SIZE], head_hash[EVENT_HASH_SIZE];
	uint64_t count, bytes;
	uint64_t anchor_place, head_place;
	char boot_id[40]; /* of the kernel under which the head was written */
};

struct store_events; /* the statements, prepared; to be closed before the store is */
must_check int store_events_open(struct store *st, struct store_events **ret, struct err *err);
void store_events_close(struct store_events *se); /* NULL is fine */

/* Reads the former chain; all zeros if there never was one. */
must_check int store_events_load_former(struct store_events *se, struct event_chain_row *ret,
                                        struct err *err);
/* Calls fn for every other chain. is_gone: the project is. */
must_check int store_events_load(struct store_events *se,
                                 int (*fn)(const struct event_chain_row *row, bool is_gone,
                                           void *arg),
                                 void *arg, struct err *err);
/* Forgets a chain that has no entries any more. */
must_check int store_events_forget(struct store_events *se, const char *project_id,
                                   struct err *err);
/* The last number of a project's entries, 0 = none; and the time of the first after `after`, 0 =
 * none. */
must_check int store_events_ends(struct store_events *se, const char *project_id, uint64_t after,
                                 uint64_t *ret_last_seq, uint64_t *ret_first_us, struct err *err);
/* Writes all of the rows, the chains and what also() writes to the same store, or nothing. also may
 * be NULL. */
must_check int store_events_add(struct store_events *se, const struct event_row *rows, size_t n,
                                const struct event_chain_row *const *chains, size_t n_chains,
                                int (*also)(void *arg, struct err *err), void *arg,
                                struct err *err);
/* Removes all up to the chain's anchor; none of the former chain, which ends at former_place. */
must_check int store_events_remove(struct store_events *se, const struct event_chain_row *chain,
                                   uint64_t former_place, struct err *err);
/* Removes all up to the former chain's anchor. */
must_check int store_events_remove_former(struct store_events *se,
                                          const struct event_chain_row *former, struct err *err);
struct event_range {
	const char *chain; /* NULL = of all, by their places */
	uint64_t after;    /* only numbers, or places, above it */
	size_t n;          /* at most so many */
};
/*
 * Calls fn for the entries of a range, in their order. If fn returns < 0, that ends the walk and
 * is the result; > 0 ends it with success. Not to be called from within fn.
 */
must_check int store_events_each(struct store_events *se, const struct event_range *range,
                                 int (*fn)(const struct event_row *row, void *arg), void *arg,
                                 struct err *err);
/* The same from the newest one before `before` back to the oldest. */
must_check int store_events_each_back(struct store_events *se, const struct event_range *range,
                                      uint64_t before,
                                      int (*fn)(const struct event_row *row, void *arg), void *arg,
                                      struct err *err);
