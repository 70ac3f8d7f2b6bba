// SPDX-License-Identifier: Apache-2.0
#include "store/tables/hooks.h"

#include "store/inside.h"
#include "store/statement.h"

#include <assert.h>

enum statement { ADD, CHANGE, MOVE, REMOVE, EACH, STATEMENT_COUNT };

static const char *const statements[] = {
	[ADD] = "INSERT INTO hooks (id, project_id, url, types, secret, created_us, cursor) "
		"VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
	[CHANGE] = "UPDATE hooks SET url = ?2, types = ?3, cursor = ?4 WHERE id = ?1",
	[MOVE] = "UPDATE hooks SET cursor = ?2 WHERE id = ?1",
	[REMOVE] = "DELETE FROM hooks WHERE id = ?1",
	[EACH] = "SELECT id, project_id, url, types, secret, created_us, cursor FROM hooks "
		 "ORDER BY created_us, id",
};
static_assert(ARRAY_SIZE(statements) == STATEMENT_COUNT, "a statement has no text");

struct store_hooks {
	struct store *store;
	sqlite3 *db;
	sqlite3_stmt *prepared[STATEMENT_COUNT];
};

DEFINE_FREEP(struct store_hooks, store_hooks_close)

static int failed(const struct store_hooks *sh, int code, struct err *err)
{
	if (code == SQLITE_FULL)
		return err_set(err, ERR_HOST_DISK_FULL, ENOSPC,
		               "the host's disk has no room for webhooks");
	return err_set(err, ERR_INTERNAL, EIO, "webhooks cannot be recorded (%s)",
	               sqlite3_errmsg(sh->db));
}

int store_hooks_open(struct store *st, struct store_hooks **ret, struct err *err)
{
	auto_call(store_hooks_closep) struct store_hooks *sh = xnew0(struct store_hooks);

	sh->store = st;
	sh->db = store_db(st);
	for (size_t i = 0; i < STATEMENT_COUNT; i++) {
		int code = sqlite3_prepare_v3(sh->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
		                              &sh->prepared[i], NULL);

		if (code != SQLITE_OK)
			return failed(sh, code, err);
	}
	*ret = take_ptr(sh);
	return 0;
}

void store_hooks_close(struct store_hooks *sh)
{
	if (!sh)
		return;
	for (size_t i = 0; i < STATEMENT_COUNT; i++)
		(void)sqlite3_finalize(sh->prepared[i]);
	free(sh);
}

static int run(struct store_hooks *sh, enum statement which, struct err *err)
{
	sqlite3_stmt *stmt = sh->prepared[which];
	int code = sqlite3_step(stmt);
	int r = code == SQLITE_DONE ? 0 : failed(sh, code, err);

	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return r;
}

int store_hooks_add(struct store_hooks *sh, const struct hook_row *row, struct err *err)
{
	sqlite3_stmt *stmt = sh->prepared[ADD];
	const char *const texts[] = {row->id, row->project_id, row->url, row->types, row->secret};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		bind_text(stmt, 1 + (int)i, texts[i]);
	(void)sqlite3_bind_int64(stmt, 6, (sqlite3_int64)row->created_us);
	(void)sqlite3_bind_int64(stmt, 7, (sqlite3_int64)row->cursor);
	store_count_durable(sh->store);
	return run(sh, ADD, err);
}

int store_hooks_change(struct store_hooks *sh, const struct hook_row *row, struct err *err)
{
	sqlite3_stmt *stmt = sh->prepared[CHANGE];

	bind_text(stmt, 1, row->id);
	bind_text(stmt, 2, row->url);
	bind_text(stmt, 3, row->types);
	(void)sqlite3_bind_int64(stmt, 4, (sqlite3_int64)row->cursor);
	store_count_durable(sh->store);
	return run(sh, CHANGE, err);
}

int store_hooks_move(struct store_hooks *sh, const char *id, uint64_t cursor, struct err *err)
{
	bind_text(sh->prepared[MOVE], 1, id);
	(void)sqlite3_bind_int64(sh->prepared[MOVE], 2, (sqlite3_int64)cursor);
	return run(sh, MOVE, err);
}

int store_hooks_remove(struct store_hooks *sh, const char *id, struct err *err)
{
	bind_text(sh->prepared[REMOVE], 1, id);
	store_count_durable(sh->store);
	return run(sh, REMOVE, err);
}

int store_hooks_each(struct store_hooks *sh, int (*fn)(const struct hook_row *row, void *arg),
                     void *arg, struct err *err)
{
	sqlite3_stmt *stmt = sh->prepared[EACH];
	int code, r = 0;

	while (r >= 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		const struct hook_row row = {
			.id = (const char *)sqlite3_column_text(stmt, 0),
			.project_id = (const char *)sqlite3_column_text(stmt, 1),
			.url = (const char *)sqlite3_column_text(stmt, 2),
			.types = (const char *)sqlite3_column_text(stmt, 3),
			.secret = (const char *)sqlite3_column_text(stmt, 4),
			.created_us = (uint64_t)sqlite3_column_int64(stmt, 5),
			.cursor = (uint64_t)sqlite3_column_int64(stmt, 6),
		};

		r = fn(&row, arg);
	}
	if (r >= 0 && code != SQLITE_DONE)
		r = failed(sh, code, err);
	(void)sqlite3_reset(stmt);
	return MIN(r, 0);
}
