// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The rows of secrets. What is sealed in them only src/secret can open. */
#include "store/store.h"

struct secret_row {
	const char *id, *project_id, *name;
	const char *hosts;                     /* patterns with blanks between; "": any */
	uint64_t version;                      /* of the value: 1 is the first */
	const char *key_id, *wrapped, *sealed; /* secret/envelope.h */
	uint64_t created_us, changed_us;
};

must_check int store_put_secret(struct store *st, const struct secret_row *row, struct err *err);
must_check int store_delete_secret(struct store *st, const char *id, struct err *err);
/* In order of their names; fn returning < 0 ends the walk and is the result. */
must_check int store_each_secret(struct store *st,
                                 int (*fn)(const struct secret_row *row, void *arg), void *arg,
                                 struct err *err);
