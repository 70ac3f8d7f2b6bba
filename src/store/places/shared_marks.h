// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Which state of each sealed record of the cluster this node has taken last. */
#include "store/store.h"

struct shared_mark_row {
	const char *kind, *id, *project_id;
	uint64_t version, changed_us;
	bool is_gone; /* it was removed */
};

must_check int store_put_shared_mark(struct store *st, const struct shared_mark_row *row,
                                     struct err *err);
/* Ids are unique over all kinds. */
must_check int store_delete_shared_mark(struct store *st, const char *id, struct err *err);
/* Those that were changed first come first; fn returning < 0 ends the walk and is the result. */
must_check int store_each_shared_mark(struct store *st,
                                      int (*fn)(const struct shared_mark_row *row, void *arg),
                                      void *arg, struct err *err);
