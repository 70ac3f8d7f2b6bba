// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What E2B's API needs to know about a sandbox beyond what the daemon knows, stored as the
 * sandbox's notes. A sandbox that was made by another API has none: it is visible too, but nobody
 * has a token for its envd.
 */
#include "sandbox/model/sandbox.h"
#include "tenant/key_token.h"

struct notes { /* borrowed from the sandbox */
	bool is_ours;
	struct key_tokens tokens;      /* of envd; none = anybody may (v1, secure: false) */
	const char *traffic;           /* token for ports; NULL = they are open */
	const char *template;          /* as it was asked for */
	const char *mask_host;         /* NULL = none */
	const json_t *metadata;        /* NULL = none */
	const json_t *network;         /* as it was asked for, without secrets; NULL = nothing */
	const json_t *workload_tokens; /* {NAME: AUDIENCE}; NULL = none */
	const json_t *internet;        /* a boolean, or NULL: not said */
	bool is_cold;                  /* at its next resume its processes are new */
	uint64_t timeout_ms;           /* as it was created with */
	uint64_t started_us;           /* of its last resume; 0 = never */
};

void notes_read(const struct sandbox *s, struct notes *ret);
/* Makes a token for the key, if the sandbox has tokens. If it cannot be saved, the next request
 * tries again. */
void notes_add_token(struct sandbox *s, struct keyring *ring, const struct key *key);
/*
 * E2B's clients send no token with their calls about contexts. So a sandbox remembers the last few
 * networks (http_peer_network()) from which a token or a key of its project was shown, and which
 * key that was, also across a restart of the daemon.
 */
json_t *notes_client(const struct key *key, uint64_t network); /* a list with only this one */
/* The key that was shown from there and is still valid, or NULL. */
const struct key *notes_client_key(const struct sandbox *s, struct keyring *ring, uint64_t network);
void notes_add_client(struct sandbox *s, const struct key *key, uint64_t network);
/* The notes of a copy of the sandbox, without the tokens and clients of other keys. The caller owns
 * it. */
json_t *notes_of_copy(const struct sandbox *s);
/* Sets one field, to be saved with the others. */
must_check int notes_set(struct sandbox *s, const char *name, json_t *value, struct err *err);
