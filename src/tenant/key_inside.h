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
