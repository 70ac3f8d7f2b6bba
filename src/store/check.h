// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Checks at each start whether the database is sound. A bad one is refused with advice, and is not
 * changed.
 */
#include "base/err.h"

#include <sqlite3.h>
#include <stdbool.h>

/* A write that changes nothing. */
#define CHECK_WRITE "UPDATE identity SET number = number"

/* Sets err by the kind of SQLite's failure. Returns a negative errno. */
int check_failed(sqlite3 *db, const char *path, struct err *err);
int check_damaged(const char *path, const char *what, struct err *err);

/*
 * Called before the file is opened. SQLite takes a WAL with a bad head for an empty one, and would
 * silently lose everything since the last checkpoint. A head of zeros is fine: nothing was ever
 * synced after it.
 */
must_check int check_wal(const char *path, struct err *err);
/*
 * Runs PRAGMA quick_check on each table, within CHECK_US in all. Tables of keys and objects come
 * first; tables that are not reached in time are named in the log and left unchecked.
 */
must_check int check_tables(sqlite3 *db, const char *path, struct err *err);
/* Whether the disk has room. A small write may fit even though a large one has failed. */
bool check_room(const char *path);
must_check int check_write(sqlite3 *db, const char *path, struct err *err);
