// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Statements that are prepared for one use, and values that are bound to any. */
#include "base/err.h"

#include <sqlite3.h>
#include <stdint.h>

/* NULL: it could not be prepared, which binding and the run after it bear, and the run tells. */
sqlite3_stmt *statement_new(sqlite3 *db, const char *sql);

/* Steps one that gives no rows and frees it. what: that which is to be recorded, for the error. */
int statement_run(sqlite3 *db, sqlite3_stmt *stmt, const char *what, struct err *err);

/* The error of a step that gave this code. */
int statement_failed(sqlite3 *db, int code, const char *what, struct err *err);

/* Binding cannot fail but for no memory, which the step then reports as a missing value. A text has
 * to live until then. */
void bind_text(sqlite3_stmt *stmt, int at, const char *text);
void bind_u64(sqlite3_stmt *stmt, int at, uint64_t number);
