// SPDX-License-Identifier: Apache-2.0
#include "store/tables/volumes.h"

#include "store/inside.h"
#include "store/statement.h"

#define WHAT "a volume"

int store_put_volume(struct store *st, const struct volume_row *row, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt =
		statement_new(db, "INSERT OR REPLACE INTO volumes (id, project_id, key_id, name, "
	                          "bytes, has_one_writer, created_us, notes) "
	                          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");

	bind_text(stmt, 1, row->id);
	bind_text(stmt, 2, row->project_id);
	bind_text(stmt, 3, row->key_id);
	bind_text(stmt, 4, row->name);
	bind_u64(stmt, 5, row->bytes);
	bind_u64(stmt, 6, row->has_one_writer);
	bind_u64(stmt, 7, row->created_us);
	if (row->notes)
		bind_text(stmt, 8, row->notes);
	store_count_durable(st);
	return statement_run(db, stmt, WHAT, err);
}

int store_delete_volume(struct store *st, const char *id, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(db, "DELETE FROM volumes WHERE id = ?1");

	bind_text(stmt, 1, id);
	store_count_durable(st);
	return statement_run(db, stmt, WHAT, err);
}

int store_each_volume(struct store *st, int (*fn)(const struct volume_row *row, void *arg),
                      void *arg, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt =
		statement_new(db, "SELECT id, project_id, key_id, name, notes, bytes, created_us, "
	                          "has_one_writer FROM volumes ORDER BY created_us, id");
	int code = stmt ? SQLITE_ROW : sqlite3_errcode(db), r = 0;

	while (stmt && r >= 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		const struct volume_row row = {
			.id = (const char *)sqlite3_column_text(stmt, 0),
			.project_id = (const char *)sqlite3_column_text(stmt, 1),
			.key_id = (const char *)sqlite3_column_text(stmt, 2),
			.name = (const char *)sqlite3_column_text(stmt, 3),
			.notes = (const char *)sqlite3_column_text(stmt, 4),
			.bytes = (uint64_t)sqlite3_column_int64(stmt, 5),
			.created_us = (uint64_t)sqlite3_column_int64(stmt, 6),
			.has_one_writer = sqlite3_column_int(stmt, 7) != 0,
		};

		r = fn(&row, arg);
	}
	(void)sqlite3_finalize(stmt);
	if (r < 0)
		return r;
	return code == SQLITE_DONE ? 0 : statement_failed(db, code, WHAT, err);
}
