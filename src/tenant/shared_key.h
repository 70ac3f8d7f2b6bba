// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Keys and projects that all nodes of a cluster have. The cluster's database decides about them;
 * what is here is this node's copy, in the same tables as the keys of a node that is alone. Keys
 * that stand for people are this node's own, and are not shared.
 */
#include "base/id.h"
#include "tenant/key.h"

/* A key that is not recorded yet. */
struct key_draft {
	char id[ID_SIZE], project_id[ID_SIZE];
	char name[68];
	unsigned char hash[32];
	enum key_scope scope;
	uint64_t created_us, expires_us;
};

/* As keyring_add(), without recording it. */
must_check int keyring_draft(struct keyring *ring, const char *project_id, const char *name,
                             enum key_scope scope, uint64_t expires_us, char secret[48],
                             struct key_draft *ret, struct err *err);
/* Whether keyring_add_project() would take the name. */
must_check int keyring_check_project(struct keyring *ring, const char *name, struct err *err);
/* The cluster has this key. 1: this node knows that it is revoked, and the cluster does not. */
must_check int keyring_take_key(struct keyring *ring, const struct key_draft *key, struct err *err);
/* The cluster has a key no more; fine if it is not known here. */
must_check int keyring_drop_key(struct keyring *ring, const char *id, struct err *err);

/* The cluster has this project. One of this node's own that has its name gets another, which ends
 * with the suffix; 1: so it was. */
must_check int keyring_take_project(struct keyring *ring, const char *id, const char *name,
                                    uint64_t created_us, const char *suffix, struct err *err);
must_check int keyring_rename_project(struct keyring *ring, const char *id, const char *name,
                                      struct err *err);

/* Whether nobody has ever used a key of this project, or made one for a person. */
bool keyring_is_unused(struct keyring *ring, const char *project_id);

struct shared_row {
	bool is_project;
	const char *id, *project_id; /* of a project both the same */
	const char *name;
	const unsigned char *hash; /* of a key */
	enum key_scope scope;
	uint64_t created_us, expires_us;
};
/* All that this node would share, projects first; fn < 0 ends the walk and is the result. */
int keyring_each_shared(struct keyring *ring, int (*fn)(const struct shared_row *row, void *arg),
                        void *arg);
