// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The rows of snapshots. */
#include "store/store.h"

struct snapshot_row {
	const char *id, *project_id, *name; /* name "" = none */
	const char *source_id, *parent_id;  /* parent "" = none */
	const char *json;
	uint64_t generation, created_us, expires_us;
};

/* The reply is held until it is synced to disk. */
must_check int store_put_snapshot(struct store *st, const struct snapshot_row *row,
                                  struct err *err);
must_check int store_delete_snapshot(struct store *st, const char *id, struct err *err);
/* In order of creation; fn returning < 0 ends the walk and is the result. */
must_check int store_each_snapshot(struct store *st,
                                   int (*fn)(const struct snapshot_row *row, void *arg), void *arg,
                                   struct err *err);
