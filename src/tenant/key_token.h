// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Tokens that open one thing: the inside of a sandbox, or the files of a volume. Each key that asks
 * gets its own token, always the same one. A token is valid as long as its key is. So a token
 * identifies a key, and access by it ends with that key.
 *
 * The first token belongs to the key that made the thing. The others are a JSON object, tokens by
 * key id, which the thing's owner keeps.
 */
#include "base/id.h"
#include "tenant/key.h"

struct key_tokens {             /* borrowed, all of it */
	const char *project_id; /* of the thing; a key of another project is none */
	const char *key_id;     /* that has made it; "" = root, or not known */
	const char *first;      /* its token; NULL = there are no tokens */
	const json_t *others;   /* or NULL */
};

/* The key's token, or NULL if it was given none yet. */
const char *key_tokens_of(const struct key_tokens *t, const struct key *key);
/* A copy of the others with one more for the key, and without those of keys that are gone. The
 * caller owns it. */
json_t *key_tokens_add(const struct key_tokens *t, struct keyring *ring, const struct key *key);
/* The key whose token says_yes() accepts, if that key is still valid; else NULL. */
const struct key *key_tokens_find(const struct key_tokens *t, struct keyring *ring,
                                  bool (*says_yes)(const char *token, const void *arg),
                                  const void *arg);
/* The key with an id as things record it: "" is root. NULL if the key is gone. */
const struct key *key_tokens_key(struct keyring *ring, const char *project_id, const char *key_id);

#define KEY_TOKEN_SIZE (ID_RANDOM_LEN + 1)
void key_token_make(char ret[KEY_TOKEN_SIZE]);
/* A says_yes(): compares the token with what the client showed, or NULL, in constant time. */
bool key_token_is(const char *token, const void *shown);
