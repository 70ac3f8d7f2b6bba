// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The rows of templates. */
#include "store/store.h"

struct template_row {
	const char *id, *project_id, *name; /* project_id "" = shared */
	const char *image;                  /* digest, in hexadecimal */
	const char *json;                   /* the manifest */
	uint64_t bytes, created_us;
};

/* The reply is held until it is synced to disk. Replaces a template of the same project and
 * name. */
must_check int store_put_template(struct store *st, const struct template_row *row,
                                  struct err *err);
must_check int store_delete_template(struct store *st, const char *id, struct err *err);
/* In order of creation; fn returning < 0 ends the walk and is the result. */
must_check int store_each_template(struct store *st,
                                   int (*fn)(const struct template_row *row, void *arg), void *arg,
                                   struct err *err);
