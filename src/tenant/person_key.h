// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * People as callers. A person who has a role in a project has a key there, like a program has: it
 * owns sandboxes, has a quota and usage, and is named in events. No secret leads to it: a session
 * (person/person_session.h) stands for the person, and the key is good as long as the person has
 * one. The same person gets the same key again after the next login.
 */
#include "base/id.h"
#include "tenant/key.h"

#define PERSON_ROLES_MAX 64

struct person {
	const char *issuer, *subject; /* together: who it is, for ever */
	const char *name, *email;     /* for people's eyes; "" = not told */
};
struct person_role {
	const char *project_id;
	enum key_scope scope;
};

void person_id_make(const struct person *person, char ret[ID_SIZE]); /* "per_…" */

/*
 * The person has these roles, until then, and no others. since_us: when the person's session began;
 * a key of the person that was revoked after that is not made again.
 */
must_check int person_keys_set(struct keyring *ring, const struct person *person,
                               const struct person_role *roles, size_t n, uint64_t since_us,
                               uint64_t expires_us, struct err *err);
/* The person's keys are good until then, if they are good now. */
must_check int person_keys_end(struct keyring *ring, const char *person_id, uint64_t expires_us,
                               struct err *err);
/* The good key there, or NULL. */
const struct key *person_key_find(struct keyring *ring, const char *person_id,
                                  const char *project_id);
void person_keys_each(struct keyring *ring, const char *person_id,
                      void (*fn)(const struct key *key, void *arg), void *arg); /* good ones */

/* For key.c: sets who a key stands for. */
void person_key_read(struct key *key, const char *person);
