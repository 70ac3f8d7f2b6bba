// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Shared by the tables: columns that are bound and read by a list; statements that are prepared
 * once (struct statements); and tables that change so rarely that each call prepares its own
 * statement (struct table).
 */
#include "store/statement.h"
#include "store/store_private.h"

#include <stddef.h>

#define HASH_SIZE 32

/* A column and its offset in the row's struct. The SQL names the columns in this order. */
struct column {
	enum column_kind {
		COLUMN_TEXT, /* NULL where the database has NULL */
		COLUMN_U64,
		COLUMN_U32,
		COLUMN_BOOL,
		COLUMN_HASH
	} kind;
	size_t at;
};

/* clang-format off */
#define COLUMN(type, member)                                                                       \
	{_Generic(((type *)NULL)->member,                                                          \
	          const char *: COLUMN_TEXT, uint64_t: COLUMN_U64, uint32_t: COLUMN_U32,           \
	          bool: COLUMN_BOOL, unsigned char *: COLUMN_HASH), offsetof(type, member)}
/* clang-format on */

/* Binds a row to the parameters from 1 on. The row must live until the step. */
void bind_row(sqlite3_stmt *stmt, const struct column *columns, size_t n, const void *row);
/* Reads the columns from 0 on. Members that are not in the list stay as they are. */
void read_row(sqlite3_stmt *stmt, const struct column *columns, size_t n, void *ret);

struct statements {
	sqlite3 *db;
	const char *room_for; /* for errors: what the disk has no room for, … */
	const char *failure;  /* … or the other message, such as "builds cannot be recorded" */
	sqlite3_stmt **prepared;
	size_t n;
};

int statements_open(struct statements *s, const char *const *texts, struct err *err);
void statements_close(struct statements *s);
int statements_failed(const struct statements *s, int code, struct err *err);
int statements_run(struct statements *s, unsigned which, struct err *err);
/* Ends a walk: code is the result of the last step, r the callback's last result. */
int statements_end(struct statements *s, unsigned which, int code, int r, struct err *err);

struct table {
	const char *what; /* for errors */
	const char *put, *remove, *each;
	const struct column *columns;
	size_t n;
};

struct table_walk {
	const struct table *table;
	sqlite3 *db;
	sqlite3_stmt *stmt;
	int code, r; /* r < 0 ends it */
};

/* The reply is held until the change is synced to disk. */
int table_put(struct store *st, const struct table *t, const void *row, struct err *err);
int table_remove(struct store *st, const struct table *t, const char *id, struct err *err);
struct table_walk table_walk(struct store *st, const struct table *t);
bool table_next(struct table_walk *w, void *ret);
int table_end(struct table_walk *w, struct err *err);
