// SPDX-License-Identifier: Apache-2.0
#include "store/table.h"

#include <assert.h>
#include <string.h>

void bind_row(sqlite3_stmt *stmt, const struct column *columns, size_t n, const void *row)
{
	for (size_t i = 0; i < n; i++) {
		const void *value = (const char *)row + columns[i].at;
		int at = 1 + (int)i;

		switch (columns[i].kind) {
		case COLUMN_TEXT:
			bind_text(stmt, at, *(const char *const *)value);
			break;
		case COLUMN_U64:
			bind_u64(stmt, at, *(const uint64_t *)value);
			break;
		case COLUMN_U32:
			bind_u64(stmt, at, *(const uint32_t *)value);
			break;
		case COLUMN_BOOL:
			bind_u64(stmt, at, *(const bool *)value);
			break;
		case COLUMN_HASH:
			(void)sqlite3_bind_blob(stmt, at, value, HASH_SIZE, SQLITE_STATIC);
			break;
		}
	}
}

static const char *column_text(sqlite3_stmt *stmt, int at)
{
	const char *text = (const char *)sqlite3_column_text(stmt, at);

	return text || sqlite3_column_type(stmt, at) == SQLITE_NULL ? text : "";
}

void read_row(sqlite3_stmt *stmt, const struct column *columns, size_t n, void *ret)
{
	for (size_t i = 0; i < n; i++) {
		void *value = (char *)ret + columns[i].at;
		int at = (int)i;

		switch (columns[i].kind) {
		case COLUMN_TEXT:
			*(const char **)value = column_text(stmt, at);
			break;
		case COLUMN_U64:
			*(uint64_t *)value = (uint64_t)sqlite3_column_int64(stmt, at);
			break;
		case COLUMN_U32:
			*(uint32_t *)value = (uint32_t)sqlite3_column_int64(stmt, at);
			break;
		case COLUMN_BOOL:
			*(bool *)value = sqlite3_column_int64(stmt, at) != 0;
			break;
		case COLUMN_HASH: /* the schema holds its size */
			assert(sqlite3_column_bytes(stmt, at) == HASH_SIZE);
			memcpy(value, sqlite3_column_blob(stmt, at), HASH_SIZE);
			break;
		}
	}
}

int statements_open(struct statements *s, const char *const *texts, struct err *err)
{
	for (size_t i = 0; i < s->n; i++) {
		int code = sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
		                              &s->prepared[i], NULL);

		if (code != SQLITE_OK)
			return statements_failed(s, code, err);
	}
	return 0;
}

void statements_close(struct statements *s)
{
	for (size_t i = 0; i < s->n; i++)
		(void)sqlite3_finalize(s->prepared[i]);
}

int statements_failed(const struct statements *s, int code, struct err *err)
{
	if (code == SQLITE_FULL)
		return err_set(err, ERR_HOST_DISK_FULL, ENOSPC,
		               "the host's disk has no room for %s", s->room_for);
	return err_set(err, ERR_INTERNAL, EIO, "%s (%s)", s->failure, sqlite3_errmsg(s->db));
}

int statements_run(struct statements *s, unsigned which, struct err *err)
{
	return statements_end(s, which, sqlite3_step(s->prepared[which]), 0, err);
}

int statements_end(struct statements *s, unsigned which, int code, int r, struct err *err)
{
	if (r == 0 && code != SQLITE_DONE)
		r = statements_failed(s, code, err);
	(void)sqlite3_reset(s->prepared[which]);
	(void)sqlite3_clear_bindings(s->prepared[which]);
	return MIN(r, 0);
}

int table_put(struct store *st, const struct table *t, const void *row, struct err *err)
{
	sqlite3_stmt *stmt = statement_new(store_db(st), t->put);

	bind_row(stmt, t->columns, t->n, row);
	store_count_durable(st);
	return statement_run(store_db(st), stmt, t->what, err);
}

int table_remove(struct store *st, const struct table *t, const char *id, struct err *err)
{
	sqlite3_stmt *stmt = statement_new(store_db(st), t->remove);

	bind_text(stmt, 1, id);
	store_count_durable(st);
	return statement_run(store_db(st), stmt, t->what, err);
}

struct table_walk table_walk(struct store *st, const struct table *t)
{
	sqlite3 *db = store_db(st);

	return (struct table_walk){.table = t, .db = db, .stmt = statement_new(db, t->each)};
}

bool table_next(struct table_walk *w, void *ret)
{
	if (w->r < 0)
		return false;
	w->code = w->stmt ? sqlite3_step(w->stmt) : sqlite3_errcode(w->db);
	if (w->code == SQLITE_ROW)
		read_row(w->stmt, w->table->columns, w->table->n, ret);
	return w->code == SQLITE_ROW;
}

int table_end(struct table_walk *w, struct err *err)
{
	(void)sqlite3_finalize(w->stmt);
	if (w->r < 0 || w->code == SQLITE_DONE)
		return MIN(w->r, 0);
	return statement_failed(w->db, w->code, w->table->what, err);
}
