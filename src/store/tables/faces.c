// SPDX-License-Identifier: Apache-2.0
#include "store/tables/faces.h"

#include "store/inside.h"
#include "store/statement.h"

#define WHAT "a face"

int store_put_face(struct store *st, const struct face_row *row, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt =
		statement_new(db, "INSERT OR REPLACE INTO faces (id, kind, created_us, "
	                          "json) VALUES (?1, ?2, ?3, ?4)");

	bind_text(stmt, 1, row->id);
	bind_text(stmt, 2, row->kind);
	bind_u64(stmt, 3, row->created_us);
	bind_text(stmt, 4, row->json);
	store_count_durable(st);
	return statement_run(db, stmt, WHAT, err);
}

int store_delete_face(struct store *st, const char *id, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(db, "DELETE FROM faces WHERE id = ?1");

	bind_text(stmt, 1, id);
	store_count_durable(st);
	return statement_run(db, stmt, WHAT, err);
}

int store_each_face(struct store *st, const char *kind,
                    int (*fn)(const struct face_row *row, void *arg), void *arg, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt =
		statement_new(db, "SELECT id, json, created_us FROM faces WHERE kind = ?1 "
	                          "ORDER BY created_us, id");
	int code = stmt ? SQLITE_ROW : sqlite3_errcode(db), r = 0;

	bind_text(stmt, 1, kind);
	while (stmt && r >= 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		const struct face_row row = {
			.id = (const char *)sqlite3_column_text(stmt, 0),
			.kind = kind,
			.json = (const char *)sqlite3_column_text(stmt, 1),
			.created_us = (uint64_t)sqlite3_column_int64(stmt, 2),
		};

		r = fn(&row, arg);
	}
	(void)sqlite3_finalize(stmt);
	if (r < 0)
		return r;
	return code == SQLITE_DONE ? 0 : statement_failed(db, code, WHAT, err);
}
