// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One effect for one idempotency key. A create with a key records which object it makes before that
 * can have an effect. A repeated request with the same key gets that object, also while it is being
 * made and after a restart. A failed create frees its key. Keys are kept for a day, and at most
 * IDEMPOTENCY_KEYS_MAX per project.
 */
#include "base/err.h"

#define IDEMPOTENCY_KEY_MAX  255
#define IDEMPOTENCY_KEYS_MAX 1000

struct fleet;
struct idempotency;

struct idempotency_key { /* borrowed */
	const char *key;
	unsigned char digest[32]; /* of method, path and body */
};

must_check int idempotency_open(struct fleet *fleet, struct err *err);
void idempotency_close(struct fleet *fleet);
/* 1: *ret_id is the object that was made, borrowed until the end of the turn; 0: there is none; <
 * 0: the key belongs to another request. */
must_check int idempotency_find(struct fleet *fleet, const char *project_id,
                                const struct idempotency_key *idempotency_key, const char **ret_id,
                                struct err *err);
/* Called before the object does anything; idempotency_key may be NULL. */
must_check int idempotency_put(struct fleet *fleet, const char *project_id,
                               const struct idempotency_key *idempotency_key, const char *object_id,
                               struct err *err);
bool idempotency_has(const struct fleet *fleet, const char *object_id); /* made with a key */
void idempotency_drop(struct fleet *fleet, const char *object_id);      /* the create failed */
