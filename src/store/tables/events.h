// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The rows of the event log. Entries are added at the end and removed at the beginning. The row
 * that says where the chain begins and ends is changed in the same transaction, so the two never
 * disagree. src/event decides what is hashed.
 */
#include "store/store.h"

#define EVENT_HASH_SIZE 32

struct event_row {
	uint64_t seq, at_us;
	const char *type, *project_id, *sandbox_id, *exec_id, *key_id, *request_id; /* "" = none */
	const char *data;                                                           /* JSON */
	unsigned char prev[EVENT_HASH_SIZE], hash[EVENT_HASH_SIZE];
};
struct event_chain_row {
	uint64_t anchor_seq, head_seq; /* 0 = none yet */
	unsigned char anchor_hash[EVENT_HASH_SIZE], head_hash[EVENT_HASH_SIZE];
	uint64_t count, bytes;
	char boot_id[40]; /* of the kernel under which the head was written */
};

struct store_events; /* the statements, prepared; to be closed before the store is */
must_check int store_events_open(struct store *st, struct store_events **ret, struct err *err);
void store_events_close(struct store_events *se); /* NULL is fine */

/* Reads the chain; all zeros if nothing was ever written. *ret_last_seq is the number of the last
 * entry. */
must_check int store_events_load(struct store_events *se, struct event_chain_row *ret,
                                 uint64_t *ret_last_seq, struct err *err);
/* Writes all of the rows, the chain and what also() writes to the same store, or nothing. also may
 * be NULL. */
must_check int store_events_add(struct store_events *se, const struct event_row *rows, size_t n,
                                const struct event_chain_row *chain,
                                int (*also)(void *arg, struct err *err), void *arg,
                                struct err *err);
/* Removes all up to the chain's anchor. */
must_check int store_events_remove(struct store_events *se, const struct event_chain_row *chain,
                                   struct err *err);
/* Calls fn for up to n entries after `after`, in order. If it returns < 0, that ends the walk and
 * is the result; > 0 ends it with success. Not to be called from within fn. */
must_check int store_events_each(struct store_events *se, uint64_t after, size_t n,
                                 int (*fn)(const struct event_row *row, void *arg), void *arg,
                                 struct err *err);
