// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The rows of webhooks. */
#include "store/store.h"

struct hook_row {
	const char *id, *project_id, *url, *types, *secret; /* types "" = all */
	uint64_t created_us;
	uint64_t cursor; /* the last entry that is done */
};

struct store_hooks; /* the statements, prepared; to be closed before the store is */
must_check int store_hooks_open(struct store *st, struct store_hooks **ret, struct err *err);
void store_hooks_close(struct store_hooks *sh); /* NULL is fine */

must_check int store_hooks_add(struct store_hooks *sh, const struct hook_row *row, struct err *err);
/* Its url, types and cursor. */
must_check int store_hooks_change(struct store_hooks *sh, const struct hook_row *row,
                                  struct err *err);
must_check int store_hooks_move(struct store_hooks *sh, const char *id, uint64_t cursor,
                                struct err *err);
must_check int store_hooks_remove(struct store_hooks *sh, const char *id, struct err *err);
/* In order of creation; fn returning < 0 ends the walk and is the result. */
must_check int store_hooks_each(struct store_hooks *sh,
                                int (*fn)(const struct hook_row *row, void *arg), void *arg,
                                struct err *err);
