// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Tokens that keys are given for one thing: a sandbox's inside, the files of a volume. Each key
 * that asks gets a token of its own, and always the same one. A token is good as long as its key
 * is: so who shows one is known by a key, and what is opened with it ends with that key.
 *
 * The first token is of the key that has made the thing; the others are an object, tokens by key
 * id, which their owner keeps.
 */
#include "base/id.h"
#include "tenant/key.h"

struct key_tokens {             /* borrowed, all of it */
	const char *project_id; /* of the thing; a key of another project is none */
	const char *key_id;     /* that has made it; "" = root, or not known */
	const char *first;      /* its token; NULL = there are no tokens */
	const json_t *others;   /* or NULL */
};

/* The key's own token, or NULL: it was given none yet. */
const char *key_tokens_of(const struct key_tokens *t, const struct key *key);
/* The others with one more for the key, and without those of keys that are gone. The caller's. */
json_t *key_tokens_add(const struct key_tokens *t, struct keyring *ring, const struct key *key);
/* Whose token says_yes() knows, if that key is still good; else NULL. */
const struct key *key_tokens_find(const struct key_tokens *t, struct keyring *ring,
                                  bool (*says_yes)(const char *token, const void *arg),
                                  const void *arg);
/* The key of an id that things are kept with: "" is root. NULL: it is gone. */
const struct key *key_tokens_key(struct keyring *ring, const char *project_id, const char *key_id);

#define KEY_TOKEN_SIZE (ID_RANDOM_LEN + 1)
void key_token_make(char ret[KEY_TOKEN_SIZE]);
/* For says_yes(), arg is what was shown or NULL. Takes as long for any that is wrong. */
bool key_token_is(const char *token, const void *shown);
