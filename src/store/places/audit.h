// SPDX-License-Identifier: Apache-2.0
#pragma once
/* How far the sending of audit entries has come, for each sink and chain. */
#include "store/store.h"

struct audit_row {
	const char *sink, *chain; /* chain "" = all entries, by their places */
	uint64_t seq;             /* sent up to here */
	uint64_t upto, sealed_us; /* of the piece that is being sent; 0 = none */
	uint64_t begin_seq;       /* the sending began behind this one, … */
	const char *begin_hash;   /* … which has this hash */
};

struct store_audit; /* the statements, prepared; to be closed before the store is */
must_check int store_audit_open(struct store *st, struct store_audit **ret, struct err *err);
void store_audit_close(struct store_audit *sa); /* NULL is fine */

must_check int store_audit_put(struct store_audit *sa, const struct audit_row *row,
                               struct err *err);
must_check int store_audit_remove(struct store_audit *sa, const char *sink, const char *chain,
                                  struct err *err);
/* The rows of a sink; fn returning < 0 ends the walk and is the result. */
must_check int store_audit_each(struct store_audit *sa, const char *sink,
                                int (*fn)(const struct audit_row *row, void *arg), void *arg,
                                struct err *err);
