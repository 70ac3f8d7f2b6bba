// SPDX-License-Identifier: Apache-2.0
#include "store/tables/snapshots.h"

#include "store/inside.h"
#include "store/statement.h"

#define WHAT "snapshots"

int store_put_snapshot(struct store *st, const struct snapshot_row *row, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt =
		statement_new(db, "INSERT OR REPLACE INTO snapshots (id, project_id, name, "
	                          "source_id, parent_id, generation, created_us, "
	                          "expires_us, json) "
	                          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");

	bind_text(stmt, 1, row->id);
	bind_text(stmt, 2, row->project_id);
	bind_text(stmt, 3, row->name);
	bind_text(stmt, 4, row->source_id);
	bind_text(stmt, 5, row->parent_id);
	bind_u64(stmt, 6, row->generation);
	bind_u64(stmt, 7, row->created_us);
	bind_u64(stmt, 8, row->expires_us);
	bind_text(stmt, 9, row->json);
	store_count_durable(st);
	return statement_run(db, stmt, WHAT, err);
}

int store_delete_snapshot(struct store *st, const char *id, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(db, "DELETE FROM snapshots WHERE id = ?1");

	bind_text(stmt, 1, id);
	store_count_durable(st);
	return statement_run(db, stmt, WHAT, err);
}

int store_each_snapshot(struct store *st, int (*fn)(const struct snapshot_row *row, void *arg),
                        void *arg, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt =
		statement_new(db, "SELECT id, project_id, name, source_id, parent_id, json, "
	                          "generation, created_us, expires_us FROM snapshots "
	                          "ORDER BY created_us, id");
	int code = stmt ? SQLITE_ROW : sqlite3_errcode(db), r = 0;

	while (stmt && r >= 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		const struct snapshot_row row = {
			.id = (const char *)sqlite3_column_text(stmt, 0),
			.project_id = (const char *)sqlite3_column_text(stmt, 1),
			.name = (const char *)sqlite3_column_text(stmt, 2),
			.source_id = (const char *)sqlite3_column_text(stmt, 3),
			.parent_id = (const char *)sqlite3_column_text(stmt, 4),
			.json = (const char *)sqlite3_column_text(stmt, 5),
			.generation = (uint64_t)sqlite3_column_int64(stmt, 6),
			.created_us = (uint64_t)sqlite3_column_int64(stmt, 7),
			.expires_us = (uint64_t)sqlite3_column_int64(stmt, 8),
		};

		r = fn(&row, arg);
	}
	(void)sqlite3_finalize(stmt);
	if (r < 0)
		return r;
	return code == SQLITE_DONE ? 0 : statement_failed(db, code, WHAT, err);
}
