// SPDX-License-Identifier: Apache-2.0
#include "store/statement.h"

#include <errno.h>

sqlite3_stmt *statement_new(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt = NULL;

	(void)sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
	return stmt;
}

int statement_failed(sqlite3 *db, int code, const char *what, struct err *err)
{
	return err_set(err, code == SQLITE_FULL ? ERR_HOST_DISK_FULL : ERR_INTERNAL,
	               code == SQLITE_FULL ? ENOSPC : EIO,
	               "the host's database cannot record %s (%s)", what, sqlite3_errmsg(db));
}

void statement_roll_back(sqlite3 *db, const char *sql, bool is_whole)
{
	(void)sqlite3_exec(db, sql, NULL, NULL, NULL);
	if (is_whole && sqlite3_get_autocommit(db) == 0)
		(void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
}

int statement_run(sqlite3 *db, sqlite3_stmt *stmt, const char *what, struct err *err)
{
	int code = stmt ? sqlite3_step(stmt) : sqlite3_errcode(db);
	int r = code == SQLITE_DONE ? 0 : statement_failed(db, code, what, err);

	(void)sqlite3_finalize(stmt);
	return r;
}

void bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
	(void)sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC);
}

void bind_u64(sqlite3_stmt *stmt, int at, uint64_t number)
{
	(void)sqlite3_bind_int64(stmt, at,
	                         (sqlite3_int64)(number < INT64_MAX ? number : INT64_MAX));
}
