// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What E2B's wire has to know of a sandbox beyond what the daemon knows, as the sandbox's notes. A
 * sandbox that was made by another wire has none: it is there all the same, and what guards its
 * envd is then nothing that anybody has.
 */
#include "sandbox/model/sandbox.h"

#define NOTES_TOKEN_SIZE (ID_RANDOM_LEN + 1)

struct notes { /* borrowed from the sandbox */
	bool is_ours;
	const char *token;      /* of envd; NULL = anybody may (v1, secure: false) */
	const char *traffic;    /* token for ports; NULL = they are open */
	const char *template;   /* as it was asked for */
	const char *mask_host;  /* NULL = none */
	const json_t *metadata; /* NULL = none */
	const json_t *network;  /* as it was asked for, without secrets; NULL = nothing */
	const json_t *internet; /* a boolean, or NULL: not said */
	bool is_cold;           /* at its next resume its processes are new */
	uint64_t timeout_ms;    /* as it was created with */
	uint64_t started_us;    /* of its last resume; 0 = never */
};

void notes_read(const struct sandbox *s, struct notes *ret);
void notes_make_token(char ret[NOTES_TOKEN_SIZE]);
/* Whether what was shown is the secret; takes as long for any that is not. */
bool notes_token_is(const char *secret, const char *shown);
/*
 * E2B's clients send no token with their calls about contexts. So a sandbox remembers from which
 * networks (http_peer_network()) somebody has shown its token or a key of its project: the last few
 * of them, also over a restart of the daemon.
 */
bool notes_has_client(const struct sandbox *s, uint64_t network);
void notes_add_client(struct sandbox *s, uint64_t network);
/* Sets one field, to be saved with the others. */
must_check int notes_set(struct sandbox *s, const char *name, json_t *value, struct err *err);
