// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Identifies callers. A project owns sandboxes; a key belongs to one project and has a scope. A
 * secret is 40 hex digits after a decorative prefix: clo_X and e2b_X are the same key. Only its
 * SHA-256 is kept. Keys are loaded from the store into memory and found by hash, so that a look-up
 * takes the same time for all keys that do not exist.
 */
#include "base/json/json.h"
#include "store/store.h"

enum key_scope {
	SCOPE_READ = 1,
	SCOPE_WRITE = 2,
	SCOPE_ADMIN = 3
}; /* each includes those below it */

struct keyring;
struct project;
struct key;

must_check int keyring_load(struct store *store, struct keyring **ret,
                            struct err *err); /* makes the project "default" if there is none */
void keyring_free(struct keyring *ring);
/* Makes the first key if none exists, and writes it to an open file. The gateway may not write to
 * the directory of admin.key, so the launcher opens the file (root's, 0600) and hands it over. */
must_check int keyring_ensure_admin(struct keyring *ring, int fd, struct err *err);

const struct key *keyring_check(
	struct keyring *ring,
	const char *secret); /* any prefix or none; NULL: unknown, malformed, revoked or expired */
/* What a secret is found by; false: it is malformed. */
bool key_hash_secret(const char *secret, unsigned char ret[32]);
const struct key *keyring_root(struct keyring *ring); /* stands for root and our own user on the
                                                         unix socket: admin of "default" */

/* It is used now. That is saved at intervals, and when the ring is freed. */
void keyring_note_use(struct keyring *ring, const struct key *key);

bool key_is_good(const struct key *key); /* neither revoked nor expired */
const char *key_id(const struct key *key);
const char *key_name(const struct key *key);
enum key_scope key_scope(const struct key *key);
const char *key_project_id(const struct key *key);
const char *key_person(const struct key *key); /* who it stands for, as JSON; NULL: nobody */
void key_to_json(const struct key *key, struct json_writer *w,
                 const char *name);               /* never the secret */
const char *key_scope_name(enum key_scope scope); /* "read", "write", "admin" */
must_check int key_scope_parse(const char *text, enum key_scope *ret);

/* Makes a key; *secret gets "clo_" and 40 digits and is shown this once. expires_us is of the wall
 * clock; 0 = never. */
must_check int keyring_add(struct keyring *ring, const char *project_id, const char *name,
                           enum key_scope scope, uint64_t expires_us, char secret[48],
                           const struct key **ret, struct err *err);
must_check int keyring_revoke(struct keyring *ring, const char *project_id, const char *key_id,
                              struct err *err); /* NOT_FOUND for another project's */
/* A key that is not revoked, or NULL; also NULL for another project's key. */
const struct key *keyring_find_key(struct keyring *ring, const char *project_id,
                                   const char *key_id);
void keyring_each(struct keyring *ring, const char *project_id,
                  void (*fn)(const struct key *key, void *arg), void *arg);
/* Every key of that name that is known, also one that is revoked; project_id NULL: of all projects.
 */
void keyring_each_named(struct keyring *ring, const char *project_id, const char *name,
                        void (*fn)(const struct key *key, void *arg), void *arg);
/* Projects, for admins of the default project. */
must_check int keyring_add_project(struct keyring *ring, const char *name, const char **ret_id,
                                   struct err *err);
/* Not "default". With its keys, which open nothing from now on, and the rows of webhooks and
 * quotas. The caller has seen to all else that it owns. The id that keyring_find_project() gave
 * stays valid. */
must_check int keyring_remove_project(struct keyring *ring, const char *id, struct err *err);
const char *keyring_find_project(struct keyring *ring,
                                 const char *id_or_name); /* its id, or NULL */
/* The name of a project's id, borrowed, or NULL. */
const char *keyring_project_name(struct keyring *ring, const char *id);
void keyring_each_project(struct keyring *ring,
                          void (*fn)(const char *id, const char *name, uint64_t created_us,
                                     void *arg),
                          void *arg); /* in order of creation */
