// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Logins of browsers, by the hash of their token. */
#include "base/digest.h"
#include "store/store.h"

struct login_row {
	struct digest hash;
	const char *project_id, *key_id;
	uint64_t created_us, expires_us;
};

must_check int store_put_login(struct store *st, const struct login_row *row, struct err *err);
must_check int store_delete_login(struct store *st, const struct digest *hash, struct err *err);
/* Oldest first; strings are borrowed for the call. */
must_check int store_each_login(struct store *st,
                                void (*fn)(const struct login_row *row, void *arg), void *arg,
                                struct err *err);
