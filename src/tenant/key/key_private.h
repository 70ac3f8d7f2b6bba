// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Keys and their ring, as the files of this folder share them. */
#include "base/id.h"
#include "base/list.h"
#include "tenant/key.h"

#include <uthash.h>

struct project {
	char id[ID_SIZE];
	char *name;
	uint64_t created_us;
	bool is_removed;
	struct list link; /* in order of creation, removed too */
	UT_hash_handle by_id, by_name;
};

struct key {
	char id[ID_SIZE];
	char project_id[ID_SIZE];
	char *name;
	unsigned char hash[32];
	enum key_scope scope;
	uint64_t created_us, revoked_us;
	uint64_t expires_us; /* 0 = never */
	uint64_t used_us, use_saved_us;
	char *person;            /* JSON of who it stands for; NULL: nobody */
	char person_id[ID_SIZE]; /* "" = nobody */
	bool is_forgotten; /* revoked, and without a row; requests under way may still point to it
	                    */
	struct list link;  /* of all, revoked too */
	UT_hash_handle by_id, by_hash;
};

struct keyring {
	struct store *store;
	struct list keys, projects;
	struct key *keys_by_id, *keys_by_hash; /* not the revoked */
	struct project *projects_by_id, *projects_by_name;
	struct key root; /* is in no table: no secret leads to it */
};

/* Records a key whose secret is hashed already. person: JSON, or NULL. */
must_check int key_add_hashed(struct keyring *ring, const struct key_row *like,
                              const struct key **ret, struct err *err);
/* Forgets an old key of the project if it has too many. */
must_check int key_make_room(struct keyring *ring, const char *project_id, struct err *err);

void key_forget_all(struct keyring *ring, const char *project_id); /* their rows are gone */

/* project.c; the default project is made if there is none, and is root's. */
must_check int projects_load(struct keyring *ring, struct err *err);
void projects_free(struct keyring *ring);

/* For shared_key.c. */
const struct key *key_attach_row(struct keyring *ring, const struct key_row *row);
struct key *key_find_known(struct keyring *ring, const char *id); /* also one that is revoked */
struct key *key_find_hash(struct keyring *ring, const unsigned char hash[32]); /* not revoked */
must_check int key_forget(struct keyring *ring, struct key *key, struct err *err);
must_check int key_count_check(struct keyring *ring, struct err *err); /* whether one more fits */
must_check int key_set_revoked(struct keyring *ring, struct key *key, struct err *err);
must_check int key_check_name(const char *name, struct err *err);
void key_draw_secret(char secret[48], unsigned char hash[32]);
struct project *key_project_find(struct keyring *ring, const char *id, const char *name);
void project_attach_row(struct keyring *ring, const struct project_row *row);
/* The row is written already. */
void project_set_name(struct keyring *ring, struct project *p, const char *name);
