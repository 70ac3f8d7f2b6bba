// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The keys that sign tokens, and those that no longer do:
 *
 *	next --promote--> current --promote--> retired --KEY_SET_OVERLAP_US--> gone
 *
 * All of them are published. The next one is there long before it signs, so that a verifier that
 * keeps a copy of the set has it by then. A retired one stays until each token that it signed has
 * expired.
 *
 * Private halves are sealed on disk. A key whose master key is lost cannot sign: if it was the
 * current one it retires, and a new one takes its place. Nobody has to be asked, since verifiers
 * read the set again when they meet a name that they do not know.
 *
 * Times are of the wall clock. One that lies ahead is taken for now: the clock was wrong once.
 */
#include "base/json/json.h"
#include "identity/signing_key.h"
#include "secret/master_keys.h"
#include "store/store.h"

#define KEY_SET_OVERLAP_US                                                                         \
	(UINT64_C(65) * 60 * 1000000) /* the longest token, and clocks that differ */

struct key_set;

must_check int key_set_open(struct store *store, const struct master_keys *keys, uint64_t now_us,
                            struct key_set **ret, struct err *err);
void key_set_close(struct key_set *set);        /* NULL is fine */
size_t key_set_lost(const struct key_set *set); /* keys that could not be opened at the start */

/* NULL: there is none. */
const struct signing_key *key_set_current(const struct key_set *set);
bool key_set_has_next(const struct key_set *set);
/* Whether the current one has signed for that long. */
bool key_set_is_due(struct key_set *set, uint64_t now_us, uint64_t age_us);
/* It becomes the next one; owns key. */
must_check int key_set_add(struct key_set *set, struct signing_key *key, uint64_t now_us,
                           struct err *err);
/* The next one becomes the current one, which retires. */
must_check int key_set_promote(struct key_set *set, uint64_t now_us, struct err *err);
must_check int key_set_prune(struct key_set *set, uint64_t now_us, struct err *err);
must_check int key_set_clear(struct key_set *set, struct err *err); /* removes all */

void key_set_put_public(const struct key_set *set, struct json_writer *w); /* members of a JWKS */
void key_set_put(const struct key_set *set, struct json_writer *w,
                 const char *name); /* what people see */
