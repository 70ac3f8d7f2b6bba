// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The rows of volumes. */
#include "store/store.h"

struct volume_row {
	const char *id, *project_id, *key_id, *name;
	const char *notes; /* an object as JSON, or NULL */
	uint64_t bytes, created_us;
	bool has_one_writer;
};

/* The reply is held until it is synced to disk. */
must_check int store_put_volume(struct store *st, const struct volume_row *row, struct err *err);
must_check int store_delete_volume(struct store *st, const char *id, struct err *err);
/* In order of creation; fn returning < 0 ends the walk and is the result. */
must_check int store_each_volume(struct store *st,
                                 int (*fn)(const struct volume_row *row, void *arg), void *arg,
                                 struct err *err);
