// SPDX-License-Identifier: Apache-2.0
#include "store/faces.h"

#include "store/inside.h"

static int failed(sqlite3 *db, int code, struct err *err)
{
	return err_set(err, code == SQLITE_FULL ? ERR_DISK_FULL : ERR_INTERNAL,
	               code == SQLITE_FULL ? ENOSPC : EIO,
	               "the host's database cannot record this (%s)", sqlite3_errmsg(db));
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	(void)sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
	return stmt;
}

static int finish(sqlite3 *db, sqlite3_stmt *stmt, struct err *err)
{
	int code = stmt ? sqlite3_step(stmt) : sqlite3_errcode(db);
	int r = code == SQLITE_DONE ? 0 : failed(db, code, err);

	(void)sqlite3_finalize(stmt);
	return r;
}

static void bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
	(void)sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC);
}

int store_put_face(struct store *st, const struct face_row *row, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = prepare(db, "INSERT OR REPLACE INTO faces (id, kind, created_us, "
	                                 "json) VALUES (?1, ?2, ?3, ?4)");

	bind_text(stmt, 1, row->id);
	bind_text(stmt, 2, row->kind);
	(void)sqlite3_bind_int64(stmt, 3, (sqlite3_int64)row->created_us);
	bind_text(stmt, 4, row->json);
	return finish(db, stmt, err);
}

int store_delete_face(struct store *st, const char *id, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = prepare(db, "DELETE FROM faces WHERE id = ?1");

	bind_text(stmt, 1, id);
	return finish(db, stmt, err);
}

int store_each_face(struct store *st, const char *kind,
                    int (*fn)(const struct face_row *row, void *arg), void *arg, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = prepare(db, "SELECT id, json, created_us FROM faces WHERE kind = ?1 "
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
	return code == SQLITE_DONE ? 0 : failed(db, code, err);
}
