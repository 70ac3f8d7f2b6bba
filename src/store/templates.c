// SPDX-License-Identifier: Apache-2.0
/* Statements are prepared for each call: templates come and go by hand. */
#include "store/templates.h"

#include "store/inside.h"

static int failed(sqlite3 *db, int code, struct err *err)
{
	return err_set(err, code == SQLITE_FULL ? ERR_DISK_FULL : ERR_INTERNAL,
	               code == SQLITE_FULL ? ENOSPC : EIO,
	               "the host's database cannot record templates (%s)", sqlite3_errmsg(db));
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

int store_put_template(struct store *st, const struct template_row *row, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = prepare(db, "INSERT OR REPLACE INTO templates "
	                                 "(id, project_id, name, image, bytes, created_us, json) "
	                                 "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
	int r;

	(void)sqlite3_exec(db, "PRAGMA synchronous = FULL", NULL, NULL, NULL);
	bind_text(stmt, 1, row->id);
	bind_text(stmt, 2, row->project_id);
	bind_text(stmt, 3, row->name);
	bind_text(stmt, 4, row->image);
	(void)sqlite3_bind_int64(stmt, 5, (sqlite3_int64)row->bytes);
	(void)sqlite3_bind_int64(stmt, 6, (sqlite3_int64)row->created_us);
	bind_text(stmt, 7, row->json);
	r = finish(db, stmt, err);
	(void)sqlite3_exec(db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
	return r;
}

int store_delete_template(struct store *st, const char *id, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = prepare(db, "DELETE FROM templates WHERE id = ?1");

	bind_text(stmt, 1, id);
	return finish(db, stmt, err);
}

int store_each_template(struct store *st, int (*fn)(const struct template_row *row, void *arg),
                        void *arg, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = prepare(db, "SELECT id, project_id, name, image, json, bytes, "
	                                 "created_us FROM templates ORDER BY created_us, id");
	int code = stmt ? SQLITE_ROW : sqlite3_errcode(db), r = 0;

	while (stmt && r >= 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		const struct template_row row = {
			.id = (const char *)sqlite3_column_text(stmt, 0),
			.project_id = (const char *)sqlite3_column_text(stmt, 1),
			.name = (const char *)sqlite3_column_text(stmt, 2),
			.image = (const char *)sqlite3_column_text(stmt, 3),
			.json = (const char *)sqlite3_column_text(stmt, 4),
			.bytes = (uint64_t)sqlite3_column_int64(stmt, 5),
			.created_us = (uint64_t)sqlite3_column_int64(stmt, 6),
		};

		r = fn(&row, arg);
	}
	(void)sqlite3_finalize(stmt);
	if (r < 0)
		return r;
	return code == SQLITE_DONE ? 0 : failed(db, code, err);
}
