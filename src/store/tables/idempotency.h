// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Idempotency keys: which object was made by a request with such a key. One row per project and
 * key. */
#include "store/store.h"

struct idempotency_row {
	const char *project_id, *key, *object_id;
	unsigned char digest[32]; /* of the request */
	uint64_t created_us;
};

must_check int store_put_idempotency_key(struct store *st, const struct idempotency_row *row,
                                         struct err *err);
must_check int store_delete_idempotency_key(struct store *st, const char *project_id,
                                            const char *key, struct err *err);
/* Oldest first; strings are borrowed for the call. */
must_check int store_each_idempotency_key(struct store *st,
                                          void (*fn)(const struct idempotency_row *row, void *arg),
                                          void *arg, struct err *err);
