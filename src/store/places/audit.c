// SPDX-License-Identifier: Apache-2.0
#include "store/places/audit.h"

#include "store/table.h"

#include <assert.h>

enum statement { PUT, REMOVE, EACH, STATEMENT_COUNT };

#define COLUMNS "sink, chain, seq, upto, sealed_us, begin_seq, begin_hash"

static const char *const statements[] = {
	[PUT] = ("INSERT OR REPLACE INTO audit_places (" COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, "
                 "?6, ?7)"),
	[REMOVE] = "DELETE FROM audit_places WHERE sink = ?1 AND chain = ?2",
	[EACH] = ("SELECT " COLUMNS " FROM audit_places WHERE sink = ?1 ORDER BY chain"),
};
static_assert(ARRAY_SIZE(statements) == STATEMENT_COUNT, "a statement has no text");

static const struct column columns[] = {
	COLUMN(struct audit_row, sink),       COLUMN(struct audit_row, chain),
	COLUMN(struct audit_row, seq),        COLUMN(struct audit_row, upto),
	COLUMN(struct audit_row, sealed_us),  COLUMN(struct audit_row, begin_seq),
	COLUMN(struct audit_row, begin_hash),
};

struct store_audit {
	struct statements all;
	sqlite3_stmt *prepared[STATEMENT_COUNT];
};

DEFINE_FREEP(struct store_audit, store_audit_close)

int store_audit_open(struct store *st, struct store_audit **ret, struct err *err)
{
	auto_call(store_audit_closep) struct store_audit *sa = xnew0(struct store_audit);
	int r;

	sa->all = (struct statements){.db = store_db(st),
	                              .room_for = "the places of the audit log",
	                              .failure = "the places of the audit log cannot be recorded",
	                              .prepared = sa->prepared,
	                              .n = STATEMENT_COUNT};
	r = statements_open(&sa->all, statements, err);
	if (r < 0)
		return r;
	*ret = take_ptr(sa);
	return 0;
}

void store_audit_close(struct store_audit *sa)
{
	if (sa)
		statements_close(&sa->all);
	free(sa);
}

int store_audit_put(struct store_audit *sa, const struct audit_row *row, struct err *err)
{
	bind_row(sa->prepared[PUT], columns, ARRAY_SIZE(columns), row);
	return statements_run(&sa->all, PUT, err);
}

int store_audit_remove(struct store_audit *sa, const char *sink, const char *chain, struct err *err)
{
	bind_text(sa->prepared[REMOVE], 1, sink);
	bind_text(sa->prepared[REMOVE], 2, chain);
	return statements_run(&sa->all, REMOVE, err);
}

int store_audit_each(struct store_audit *sa, const char *sink,
                     int (*fn)(const struct audit_row *row, void *arg), void *arg, struct err *err)
{
	struct audit_row row;
	int code = SQLITE_DONE, r = 0;

	bind_text(sa->prepared[EACH], 1, sink);
	while (r >= 0 && (code = sqlite3_step(sa->prepared[EACH])) == SQLITE_ROW) {
		read_row(sa->prepared[EACH], columns, ARRAY_SIZE(columns), &row);
		r = fn(&row, arg);
	}
	return statements_end(&sa->all, EACH, code, MIN(r, 0), err);
}
