// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Statements that are prepared for one use, and functions that bind values to any statement. */
#include "base/err.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* NULL if it could not be prepared. Binding and running accept NULL, and running then reports the
 * error. */
sqlite3_stmt *statement_new(sqlite3 *db, const char *sql);

/* Runs a statement that returns no rows, and frees it. what names the thing to be recorded, for the
 * error. */
int statement_run(sqlite3 *db, sqlite3_stmt *stmt, const char *what, struct err *err);

/* Sets err for a step that returned this code. */
int statement_failed(sqlite3 *db, int code, const char *what, struct err *err);
/* Ends a savepoint that failed, by sql. is_whole: it was a transaction of its own. A disk that
 * fails may keep it open; then nothing could be written any more. */
void statement_roll_back(sqlite3 *db, const char *sql, bool is_whole);

/* Binding can only fail when memory runs out; the step then reports a missing value. A text must
 * live until the step. */
void bind_text(sqlite3_stmt *stmt, int at, const char *text);
void bind_u64(sqlite3_stmt *stmt, int at, uint64_t number);
