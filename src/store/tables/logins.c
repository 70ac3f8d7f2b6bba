// SPDX-License-Identifier: Apache-2.0
/* Statements are prepared for each call: people log in rarely. */
#include "store/tables/logins.h"

#include "store/statement.h"
#include "store/store_private.h"

#define WHAT "a login"

int store_put_login(struct store *st, const struct login_row *row, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(
		db, "INSERT INTO logins (hash, project_id, key_id, created_us, expires_us) "
		    "VALUES (?1, ?2, ?3, ?4, ?5)");

	(void)sqlite3_bind_blob(stmt, 1, row->hash.bytes, DIGEST_LEN, SQLITE_STATIC);
	bind_text(stmt, 2, row->project_id);
	bind_text(stmt, 3, row->key_id);
	bind_u64(stmt, 4, row->created_us);
	bind_u64(stmt, 5, row->expires_us);
	return statement_run(db, stmt, WHAT, err);
}

int store_delete_login(struct store *st, const struct digest *hash, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(db, "DELETE FROM logins WHERE hash = ?1");

	(void)sqlite3_bind_blob(stmt, 1, hash->bytes, DIGEST_LEN, SQLITE_STATIC);
	store_count_durable(st);
	return statement_run(db, stmt, WHAT, err);
}

int store_each_login(struct store *st, void (*fn)(const struct login_row *row, void *arg),
                     void *arg, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt =
		statement_new(db, "SELECT hash, project_id, key_id, created_us, expires_us "
	                          "FROM logins ORDER BY created_us");
	int code;

	while ((code = stmt ? sqlite3_step(stmt) : sqlite3_errcode(db)) == SQLITE_ROW) {
		struct login_row row = {
			.project_id = (const char *)sqlite3_column_text(stmt, 1),
			.key_id = (const char *)sqlite3_column_text(stmt, 2),
			.created_us = (uint64_t)sqlite3_column_int64(stmt, 3),
			.expires_us = (uint64_t)sqlite3_column_int64(stmt, 4),
		};

		if (!row.project_id || !row.key_id || sqlite3_column_bytes(stmt, 0) != DIGEST_LEN)
			continue;
		memcpy(row.hash.bytes, sqlite3_column_blob(stmt, 0), DIGEST_LEN);
		fn(&row, arg);
	}
	(void)sqlite3_finalize(stmt);
	return code == SQLITE_DONE ? 0 : statement_failed(db, code, WHAT, err);
}
