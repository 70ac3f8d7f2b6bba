// SPDX-License-Identifier: Apache-2.0
#include "store/tables/hooks.h"

#include "store/table.h"

#include <assert.h>

enum statement { ADD, CHANGE, MOVE, REMOVE, EACH, STATEMENT_COUNT };

static const char *const statements[] = {
	[ADD] = "INSERT INTO hooks (id, project_id, url, types, secret, created_us, cursor) "
		"VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
	[CHANGE] = "UPDATE hooks SET url = ?2, types = ?3, cursor = ?4, secret = ?5 "
		   "WHERE id = ?1",
	[MOVE] = "UPDATE hooks SET cursor = ?2 WHERE id = ?1",
	[REMOVE] = "DELETE FROM hooks WHERE id = ?1",
	[EACH] = "SELECT id, project_id, url, types, secret, created_us, cursor FROM hooks "
		 "ORDER BY created_us, id",
};
static_assert(ARRAY_SIZE(statements) == STATEMENT_COUNT, "a statement has no text");

static const struct column columns[] = {
	COLUMN(struct hook_row, id),     COLUMN(struct hook_row, project_id),
	COLUMN(struct hook_row, url),    COLUMN(struct hook_row, types),
	COLUMN(struct hook_row, secret), COLUMN(struct hook_row, created_us),
	COLUMN(struct hook_row, cursor),
};

struct store_hooks {
	struct store *store;
	struct statements all;
	sqlite3_stmt *prepared[STATEMENT_COUNT];
};

DEFINE_FREEP(struct store_hooks, store_hooks_close)

int store_hooks_open(struct store *st, struct store_hooks **ret, struct err *err)
{
	auto_call(store_hooks_closep) struct store_hooks *sh = xnew0(struct store_hooks);
	int r;

	sh->store = st;
	sh->all = (struct statements){.db = store_db(st),
	                              .room_for = "webhooks",
	                              .failure = "webhooks cannot be recorded",
	                              .prepared = sh->prepared,
	                              .n = STATEMENT_COUNT};
	r = statements_open(&sh->all, statements, err);
	if (r < 0)
		return r;
	*ret = take_ptr(sh);
	return 0;
}

void store_hooks_close(struct store_hooks *sh)
{
	if (sh)
		statements_close(&sh->all);
	free(sh);
}

int store_hooks_add(struct store_hooks *sh, const struct hook_row *row, struct err *err)
{
	bind_row(sh->prepared[ADD], columns, ARRAY_SIZE(columns), row);
	store_count_durable(sh->store);
	return statements_run(&sh->all, ADD, err);
}

int store_hooks_change(struct store_hooks *sh, const struct hook_row *row, struct err *err)
{
	sqlite3_stmt *stmt = sh->prepared[CHANGE];

	bind_text(stmt, 1, row->id);
	bind_text(stmt, 2, row->url);
	bind_text(stmt, 3, row->types);
	bind_u64(stmt, 4, row->cursor);
	bind_text(stmt, 5, row->secret);
	store_count_durable(sh->store);
	return statements_run(&sh->all, CHANGE, err);
}

int store_hooks_move(struct store_hooks *sh, const char *id, uint64_t cursor, struct err *err)
{
	bind_text(sh->prepared[MOVE], 1, id);
	bind_u64(sh->prepared[MOVE], 2, cursor);
	return statements_run(&sh->all, MOVE, err);
}

int store_hooks_remove(struct store_hooks *sh, const char *id, struct err *err)
{
	bind_text(sh->prepared[REMOVE], 1, id);
	store_count_durable(sh->store);
	return statements_run(&sh->all, REMOVE, err);
}

int store_hooks_each(struct store_hooks *sh, int (*fn)(const struct hook_row *row, void *arg),
                     void *arg, struct err *err)
{
	struct hook_row row;
	int code = SQLITE_DONE, r = 0;

	while (r >= 0 && (code = sqlite3_step(sh->prepared[EACH])) == SQLITE_ROW) {
		read_row(sh->prepared[EACH], columns, ARRAY_SIZE(columns), &row);
		r = fn(&row, arg);
	}
	return statements_end(&sh->all, EACH, code, MIN(r, 0), err);
}
