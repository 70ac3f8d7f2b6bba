// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Whether the database can be built on, asked at each start. What cannot is refused with what to
 * do, and left as it is.
 */
#include "base/err.h"

#include <sqlite3.h>
#include <stdbool.h>

/* Changes nothing, and writes all the same. */
#define CHECK_WRITE "UPDATE identity SET number = number"

/* Says what SQLite failed with, by its kind. Gives a negative errno. */
int check_failed(sqlite3 *db, const char *path, struct err *err);
int check_damaged(const char *path, const char *what, struct err *err);

/*
 * Before the file is opened: SQLite takes a WAL whose head is not one for empty, and what was
 * written since the last checkpoint would be lost without a word. An empty head is fine: nothing
 * was ever synced behind it.
 */
must_check int check_wal(const char *path, struct err *err);
/*
 * PRAGMA quick_check of each table, within CHECK_US altogether. Those that say who may do what and
 * what there is come first; what is not reached in time is told in the log and left unchecked.
 */
must_check int check_tables(sqlite3 *db, const char *path, struct err *err);
/* Whether there is room for more than one small write, which fits where a large one has failed. */
bool check_room(const char *path);
must_check int check_write(sqlite3 *db, const char *path, struct err *err);
