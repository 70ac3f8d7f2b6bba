// SPDX-License-Identifier: Apache-2.0
/* Statements are prepared for each call: templates come and go by hand. */
#include "store/tables/templates.h"

#include "store/inside.h"
#include "store/statement.h"

#define WHAT "templates"

int store_put_template(struct store *st, const struct template_row *row, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt =
		statement_new(db, "INSERT OR REPLACE INTO templates "
	                          "(id, project_id, name, image, bytes, created_us, json) "
	                          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
	int r;

	(void)sqlite3_exec(db, "PRAGMA synchronous = FULL", NULL, NULL, NULL);
	bind_text(stmt, 1, row->id);
	bind_text(stmt, 2, row->project_id);
	bind_text(stmt, 3, row->name);
	bind_text(stmt, 4, row->image);
	bind_u64(stmt, 5, row->bytes);
	bind_u64(stmt, 6, row->created_us);
	bind_text(stmt, 7, row->json);
	store_count_durable(st);
	r = statement_run(db, stmt, WHAT, err);
	(void)sqlite3_exec(db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
	return r;
}

int store_delete_template(struct store *st, const char *id, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(db, "DELETE FROM templates WHERE id = ?1");

	bind_text(stmt, 1, id);
	store_count_durable(st);
	return statement_run(db, stmt, WHAT, err);
}

int store_each_template(struct store *st, int (*fn)(const struct template_row *row, void *arg),
                        void *arg, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(db, "SELECT id, project_id, name, image, json, bytes, "
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
	return code == SQLITE_DONE ? 0 : statement_failed(db, code, WHAT, err);
}
