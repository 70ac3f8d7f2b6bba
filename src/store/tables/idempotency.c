// SPDX-License-Identifier: Apache-2.0
/* Statements are prepared for each call: few creates have a key. */
#include "store/tables/idempotency.h"

#include "store/statement.h"
#include "store/store_private.h"

#define WHAT "an idempotency key"

int store_put_idempotency_key(struct store *st, const struct idempotency_row *row, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(db, "INSERT OR REPLACE INTO once "
	                                       "(project_id, key, object_id, digest, created_us) "
	                                       "VALUES (?1, ?2, ?3, ?4, ?5)");

	bind_text(stmt, 1, row->project_id);
	bind_text(stmt, 2, row->key);
	bind_text(stmt, 3, row->object_id);
	(void)sqlite3_bind_blob(stmt, 4, row->digest, sizeof(row->digest), SQLITE_STATIC);
	bind_u64(stmt, 5, row->created_us);
	return statement_run(db, stmt, WHAT, err);
}

int store_delete_idempotency_key(struct store *st, const char *project_id, const char *key,
                                 struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt =
		statement_new(db, "DELETE FROM once WHERE project_id = ?1 AND key = ?2");

	bind_text(stmt, 1, project_id);
	bind_text(stmt, 2, key);
	return statement_run(db, stmt, WHAT, err);
}

int store_each_idempotency_key(struct store *st,
                               void (*fn)(const struct idempotency_row *row, void *arg), void *arg,
                               struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt =
		statement_new(db, "SELECT project_id, key, object_id, digest, created_us "
	                          "FROM once ORDER BY created_us");
	int code;

	while ((code = stmt ? sqlite3_step(stmt) : sqlite3_errcode(db)) == SQLITE_ROW) {
		struct idempotency_row row = {
			.project_id = (const char *)sqlite3_column_text(stmt, 0),
			.key = (const char *)sqlite3_column_text(stmt, 1),
			.object_id = (const char *)sqlite3_column_text(stmt, 2),
			.created_us = (uint64_t)sqlite3_column_int64(stmt, 4),
		};

		if (!row.project_id || !row.key || !row.object_id ||
		    sqlite3_column_bytes(stmt, 3) != (int)sizeof(row.digest))
			continue;
		memcpy(row.digest, sqlite3_column_blob(stmt, 3), sizeof(row.digest));
		fn(&row, arg);
	}
	(void)sqlite3_finalize(stmt);
	return code == SQLITE_DONE ? 0 : statement_failed(db, code, WHAT, err);
}
