// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Rows of the other products' APIs (src/compat): data that they have and the daemon has not. Only
 * the code that wrote a row reads it. */
#include "store/store.h"

struct face_row {
	const char *id, *kind; /* "vercel.sandbox", … */
	const char *json;
	uint64_t created_us;
};

must_check int store_put_face(struct store *st, const struct face_row *row, struct err *err);
must_check int store_delete_face(struct store *st, const char *id, struct err *err);
/* Each of a kind in order of creation; fn returning < 0 ends the walk and is the result. */
must_check int store_each_face(struct store *st, const char *kind,
                               int (*fn)(const struct face_row *row, void *arg), void *arg,
                               struct err *err);
