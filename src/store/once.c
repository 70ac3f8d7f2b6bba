// SPDX-License-Identifier: Apache-2.0
/* Statements are prepared for each call: a create that has a key is one in many. */
#include "store/once.h"

#include "store/inside.h"

static int failed(sqlite3 *db, int code, struct err *err)
{
	return err_set(err, code == SQLITE_FULL ? ERR_DISK_FULL : ERR_INTERNAL,
	               code == SQLITE_FULL ? ENOSPC : EIO,
	               "the host's database cannot record an idempotency key (%s)",
	               sqlite3_errmsg(db));
}

static int finish(sqlite3 *db, sqlite3_stmt *stmt, struct err *err)
{
	int code = stmt ? sqlite3_step(stmt) : sqlite3_errcode(db);
	int r = code == SQLITE_DONE ? 0 : failed(db, code, err);

	(void)sqlite3_finalize(stmt);
	return r;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	(void)sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
	return stmt;
}

static void bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
	(void)sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC);
}

int store_put_once(struct store *st, const struct once_row *row, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = prepare(db, "INSERT OR REPLACE INTO once "
	                                 "(project_id, key, object_id, digest, created_us) "
	                                 "VALUES (?1, ?2, ?3, ?4, ?5)");

	bind_text(stmt, 1, row->project_id);
	bind_text(stmt, 2, row->key);
	bind_text(stmt, 3, row->object_id);
	(void)sqlite3_bind_blob(stmt, 4, row->digest, sizeof(row->digest), SQLITE_STATIC);
	(void)sqlite3_bind_int64(stmt, 5, (sqlite3_int64)row->created_us);
	return finish(db, stmt, err);
}

int store_delete_once(struct store *st, const char *project_id, const char *key, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = prepare(db, "DELETE FROM once WHERE project_id = ?1 AND key = ?2");

	bind_text(stmt, 1, project_id);
	bind_text(stmt, 2, key);
	return finish(db, stmt, err);
}

int store_each_once(struct store *st, void (*fn)(const struct once_row *row, void *arg), void *arg,
                    struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = prepare(db, "SELECT project_id, key, object_id, digest, created_us "
	                                 "FROM once ORDER BY created_us");
	int code;

	while ((code = stmt ? sqlite3_step(stmt) : sqlite3_errcode(db)) == SQLITE_ROW) {
		struct once_row row = {
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
	return code == SQLITE_DONE ? 0 : failed(db, code, err);
}
