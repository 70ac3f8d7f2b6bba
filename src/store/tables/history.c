// SPDX-License-Identifier: Apache-2.0
#include "store/tables/history.h"

#include "store/table.h"

#include <assert.h>

/* At most so many rows go by one call: a millisecond or two. */
#define SOME "200"

enum statement {
	BEGIN,
	COMMIT,
	ROLLBACK,
	PUT,
	GET,
	SPAN,
	REMOVE,
	REMOVE_OF,
	PUT_RUN,
	END_RUN,
	EACH_RUN,
	DROP_RUNS,
	PUT_ROOM,
	DELETE_ROOM,
	EACH_ROOM,
	STATEMENT_COUNT
};

#define KEY      "step, span, project_id, owner_id"
#define RUN_COLS "project_id, sandbox_id, name, template, began_us, ended_us"

static const char *const statements[] = {
	[BEGIN] = "BEGIN IMMEDIATE",
	[COMMIT] = "COMMIT",
	[ROLLBACK] = "ROLLBACK",
	[PUT] = "INSERT INTO history_pieces (" KEY ", data) VALUES (?1, ?2, ?3, ?4, ?5) "
		"ON CONFLICT (" KEY ") DO UPDATE SET data = ?5",
	[GET] = "SELECT data FROM history_pieces WHERE step = ?1 AND span = ?2 "
		"AND project_id = ?3 AND owner_id = ?4",
	[SPAN] = "SELECT span FROM history_pieces WHERE step = ?1 AND span >= ?2 "
		 "ORDER BY span LIMIT 1",
	[REMOVE] = "DELETE FROM history_pieces WHERE (" KEY ") IN (SELECT " KEY
		   " FROM history_pieces WHERE step = ?1 AND span = ?2 LIMIT " SOME ") "
		   "RETURNING " KEY ", length(data)",
	[REMOVE_OF] = "DELETE FROM history_pieces WHERE (" KEY ") IN (SELECT " KEY
		      " FROM history_pieces WHERE step = ?1 AND span = ?2 AND project_id = ?3 "
		      "AND (?4 OR owner_id > '') LIMIT " SOME ") "
		      "RETURNING " KEY ", length(data)",
	[PUT_RUN] = "INSERT OR REPLACE INTO history_runs (" RUN_COLS ") "
		    "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
	[END_RUN] = "UPDATE OR REPLACE history_runs SET ended_us = ?3 WHERE project_id = ?1 "
		    "AND sandbox_id = ?2 AND ended_us = ?4",
	[EACH_RUN] = "SELECT " RUN_COLS " FROM history_runs WHERE project_id = ?1 "
		     "AND (ended_us, sandbox_id) > (?2, ?3) ORDER BY ended_us, sandbox_id",
	[DROP_RUNS] = "DELETE FROM history_runs WHERE (project_id, ended_us, sandbox_id) IN "
		      "(SELECT project_id, ended_us, sandbox_id FROM history_runs "
		      "WHERE project_id = ?1 AND ended_us < ?2 ORDER BY ended_us LIMIT " SOME
		      ") RETURNING 1",
	[PUT_ROOM] = "INSERT INTO history_room (project_id, bytes, runs) VALUES (?1, ?2, ?3) "
		     "ON CONFLICT (project_id) DO UPDATE SET bytes = ?2, runs = ?3",
	[DELETE_ROOM] = "DELETE FROM history_room WHERE project_id = ?1",
	[EACH_ROOM] = "SELECT project_id, bytes, runs FROM history_room",
};
static_assert(ARRAY_SIZE(statements) == STATEMENT_COUNT, "a statement has no text");

static const struct column key_columns[] = {
	COLUMN(struct history_key, step),
	COLUMN(struct history_key, span),
	COLUMN(struct history_key, project_id),
	COLUMN(struct history_key, owner_id),
};

static const struct column run_columns[] = {
	COLUMN(struct history_run_row, project_id), COLUMN(struct history_run_row, sandbox_id),
	COLUMN(struct history_run_row, name),       COLUMN(struct history_run_row, template),
	COLUMN(struct history_run_row, began_us),   COLUMN(struct history_run_row, ended_us),
};

static const struct column room_columns[] = {
	COLUMN(struct history_room_row, project_id),
	COLUMN(struct history_room_row, bytes),
	COLUMN(struct history_room_row, runs),
};

struct store_history {
	struct statements all;
	sqlite3_stmt *prepared[STATEMENT_COUNT];
};

DEFINE_FREEP(struct store_history, store_history_close)

int store_history_open(struct store *st, struct store_history **ret, struct err *err)
{
	auto_call(store_history_closep) struct store_history *sh = xnew0(struct store_history);
	int r;

	sh->all = (struct statements){.db = store_db(st),
	                              .room_for = "history",
	                              .failure = "history cannot be recorded",
	                              .prepared = sh->prepared,
	                              .n = STATEMENT_COUNT};
	r = statements_open(&sh->all, statements, err);
	if (r < 0)
		return r;
	*ret = take_ptr(sh);
	return 0;
}

void store_history_close(struct store_history *sh)
{
	if (sh)
		statements_close(&sh->all);
	free(sh);
}

int store_history_begin(struct store_history *sh, struct err *err)
{
	return statements_run(&sh->all, BEGIN, err);
}

int store_history_end(struct store_history *sh, int r, struct err *err)
{
	if (r >= 0)
		r = statements_run(&sh->all, COMMIT, err);
	if (r < 0) /* SQLite may have rolled back by itself; then this does nothing */
		(void)!statements_run(&sh->all, ROLLBACK, NULL);
	return r;
}

int store_history_put(struct store_history *sh, const struct history_key *key, const void *data,
                      size_t len, struct err *err)
{
	bind_row(sh->prepared[PUT], key_columns, ARRAY_SIZE(key_columns), key);
	(void)sqlite3_bind_blob64(sh->prepared[PUT], 5, data, len, SQLITE_STATIC);
	return statements_run(&sh->all, PUT, err);
}

int store_history_get(struct store_history *sh, const struct history_key *key, struct buf *ret,
                      struct err *err)
{
	sqlite3_stmt *stmt = sh->prepared[GET];
	int code, r = 0;

	bind_row(stmt, key_columns, ARRAY_SIZE(key_columns), key);
	code = sqlite3_step(stmt);
	if (code == SQLITE_ROW) {
		r = buf_append(ret, sqlite3_column_blob(stmt, 0),
		               (size_t)sqlite3_column_bytes(stmt, 0)) < 0
		            ? 0 /* longer than any that was written: as if there were none */
		            : 1;
		code = SQLITE_DONE;
	}
	return statements_end(&sh->all, GET, code, 0, err) < 0 ? -EIO : r;
}

int store_history_span(struct store_history *sh, uint32_t step, uint64_t from, uint64_t *ret,
                       struct err *err)
{
	sqlite3_stmt *stmt = sh->prepared[SPAN];
	int code, r = 0;

	bind_u64(stmt, 1, step);
	bind_u64(stmt, 2, from);
	code = sqlite3_step(stmt);
	if (code == SQLITE_ROW) {
		*ret = (uint64_t)sqlite3_column_int64(stmt, 0);
		r = 1;
		code = SQLITE_DONE;
	}
	return statements_end(&sh->all, SPAN, code, 0, err) < 0 ? -EIO : r;
}

/* Runs a statement that returns what it has removed. */
static int remove_some(struct store_history *sh, enum statement which, store_history_fn fn,
                       void *arg, struct err *err)
{
	sqlite3_stmt *stmt = sh->prepared[which];
	int code, n = 0;

	while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct history_key key;

		if (fn) {
			read_row(stmt, key_columns, ARRAY_SIZE(key_columns), &key);
			fn(&key, (size_t)sqlite3_column_int64(stmt, 4), arg);
		}
		n++;
	}
	return statements_end(&sh->all, which, code, 0, err) < 0 ? -EIO : n;
}

int store_history_remove(struct store_history *sh, uint32_t step, uint64_t span,
                         store_history_fn fn, void *arg, struct err *err)
{
	bind_u64(sh->prepared[REMOVE], 1, step);
	bind_u64(sh->prepared[REMOVE], 2, span);
	return remove_some(sh, REMOVE, fn, arg, err);
}

int store_history_remove_of(struct store_history *sh, uint32_t step, uint64_t span,
                            const char *project_id, bool with_own, store_history_fn fn, void *arg,
                            struct err *err)
{
	bind_u64(sh->prepared[REMOVE_OF], 1, step);
	bind_u64(sh->prepared[REMOVE_OF], 2, span);
	bind_text(sh->prepared[REMOVE_OF], 3, project_id);
	bind_u64(sh->prepared[REMOVE_OF], 4, with_own);
	return remove_some(sh, REMOVE_OF, fn, arg, err);
}

int store_history_put_run(struct store_history *sh, const struct history_run_row *row,
                          struct err *err)
{
	bind_row(sh->prepared[PUT_RUN], run_columns, ARRAY_SIZE(run_columns), row);
	return statements_run(&sh->all, PUT_RUN, err);
}

int store_history_end_run(struct store_history *sh, const struct history_run_row *row,
                          struct err *err)
{
	sqlite3_stmt *stmt = sh->prepared[END_RUN];

	bind_text(stmt, 1, row->project_id);
	bind_text(stmt, 2, row->sandbox_id);
	bind_u64(stmt, 3, row->ended_us);
	bind_u64(stmt, 4, HISTORY_RUNS_ON);
	return statements_run(&sh->all, END_RUN, err);
}

int store_history_each_run(struct store_history *sh, const char *project_id, uint64_t after_us,
                           const char *after_id, store_history_run_fn fn, void *arg,
                           struct err *err)
{
	sqlite3_stmt *stmt = sh->prepared[EACH_RUN];
	int code = SQLITE_DONE, r = 0;

	bind_text(stmt, 1, project_id);
	bind_u64(stmt, 2, after_us);
	bind_text(stmt, 3, after_id);
	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct history_run_row row = {0};

		read_row(stmt, run_columns, ARRAY_SIZE(run_columns), &row);
		r = fn(&row, arg);
	}
	return statements_end(&sh->all, EACH_RUN, code, r, err);
}

int store_history_drop_runs(struct store_history *sh, const char *project_id, struct err *err)
{
	bind_text(sh->prepared[DROP_RUNS], 1, project_id);
	bind_u64(sh->prepared[DROP_RUNS], 2, HISTORY_RUNS_ON);
	return remove_some(sh, DROP_RUNS, NULL, NULL, err);
}

int store_history_put_room(struct store_history *sh, const struct history_room_row *row,
                           struct err *err)
{
	enum statement which = row->bytes || row->runs ? PUT_ROOM : DELETE_ROOM;

	bind_text(sh->prepared[which], 1, row->project_id);
	if (which == PUT_ROOM) {
		bind_u64(sh->prepared[which], 2, row->bytes);
		bind_u64(sh->prepared[which], 3, row->runs);
	}
	return statements_run(&sh->all, which, err);
}

int store_history_each_room(struct store_history *sh,
                            int (*fn)(const struct history_room_row *row, void *arg), void *arg,
                            struct err *err)
{
	sqlite3_stmt *stmt = sh->prepared[EACH_ROOM];
	int code = SQLITE_DONE, r = 0;

	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct history_room_row row = {0};

		read_row(stmt, room_columns, ARRAY_SIZE(room_columns), &row);
		r = fn(&row, arg);
	}
	return statements_end(&sh->all, EACH_ROOM, code, r, err);
}
