// SPDX-License-Identifier: Apache-2.0
/* Statements are prepared for each call: people log in rarely. */
#include "store/tables/person_sessions.h"

#include "store/statement.h"
#include "store/store_private.h"

#define WHAT "a session"

int store_put_person_session(struct store *st, const struct person_session_row *row,
                             struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(
		db, "INSERT OR REPLACE INTO person_sessions (hash, person_id, kind, project_id, "
		    "sid, refresh, created_us, expires_us, until_us) "
		    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");

	(void)sqlite3_bind_blob(stmt, 1, row->hash.bytes, DIGEST_LEN, SQLITE_STATIC);
	bind_text(stmt, 2, row->person_id);
	bind_u64(stmt, 3, row->kind);
	bind_text(stmt, 4, row->project_id);
	bind_text(stmt, 5, row->sid);
	bind_text(stmt, 6, row->refresh);
	bind_u64(stmt, 7, row->created_us);
	bind_u64(stmt, 8, row->expires_us);
	bind_u64(stmt, 9, row->until_us);
	store_count_durable(st);
	return statement_run(db, stmt, WHAT, err);
}

int store_delete_person_session(struct store *st, const struct digest *hash, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(db, "DELETE FROM person_sessions WHERE hash = ?1");

	(void)sqlite3_bind_blob(stmt, 1, hash->bytes, DIGEST_LEN, SQLITE_STATIC);
	store_count_durable(st);
	return statement_run(db, stmt, WHAT, err);
}

static const char *text_of(sqlite3_stmt *stmt, int column)
{
	const char *text = (const char *)sqlite3_column_text(stmt, column);

	return text ? text : "";
}

int store_each_person_session(struct store *st,
                              void (*fn)(const struct person_session_row *row, void *arg),
                              void *arg, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(
		db, "SELECT hash, person_id, kind, project_id, sid, refresh, created_us, "
		    "expires_us, until_us FROM person_sessions ORDER BY created_us");
	int code;

	while ((code = stmt ? sqlite3_step(stmt) : sqlite3_errcode(db)) == SQLITE_ROW) {
		struct person_session_row row = {
			.person_id = text_of(stmt, 1),
			.kind = (uint32_t)sqlite3_column_int(stmt, 2),
			.project_id = text_of(stmt, 3),
			.sid = text_of(stmt, 4),
			.refresh = text_of(stmt, 5),
			.created_us = (uint64_t)sqlite3_column_int64(stmt, 6),
			.expires_us = (uint64_t)sqlite3_column_int64(stmt, 7),
			.until_us = (uint64_t)sqlite3_column_int64(stmt, 8),
		};

		if (sqlite3_column_bytes(stmt, 0) != DIGEST_LEN)
			continue;
		memcpy(row.hash.bytes, sqlite3_column_blob(stmt, 0), DIGEST_LEN);
		fn(&row, arg);
	}
	(void)sqlite3_finalize(stmt);
	return code == SQLITE_DONE ? 0 : statement_failed(db, code, WHAT, err);
}
