// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The rows of keys that sign tokens. What is sealed in them only src/identity can open. */
#include "store/store.h"

struct identity_key_row {
	const char *id, *sealed, *modulus;
	uint64_t created_us, active_us, retired_us;
};

must_check int store_put_identity_key(struct store *st, const struct identity_key_row *row,
                                      struct err *err);
must_check int store_delete_identity_key(struct store *st, const char *id, struct err *err);
/* The oldest first; fn returning < 0 ends the walk and is the result. */
must_check int store_each_identity_key(struct store *st,
                                       int (*fn)(const struct identity_key_row *row, void *arg),
                                       void *arg, struct err *err);
