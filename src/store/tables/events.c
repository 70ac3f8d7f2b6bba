// SPDX-License-Identifier: Apache-2.0
/* Every change is one transaction: the entries and the chain's row. */
#include "store/tables/events.h"

#include "store/table.h"

#include <assert.h>
#include <string.h>

enum statement {
	BEGIN,
	COMMIT,
	ROLLBACK,
	ADD,
	SET_CHAIN,
	REMOVE,
	LOAD,
	LAST,
	EACH,
	STATEMENT_COUNT
};

static const char *const statements[] = {
	[BEGIN] = "BEGIN IMMEDIATE",
	[COMMIT] = "COMMIT",
	[ROLLBACK] = "ROLLBACK",
	[ADD] = "INSERT INTO events (seq, at_us, type, project_id, sandbox_id, exec_id, key_id, "
		"request_id, data, prev, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, "
		"?11)",
	[SET_CHAIN] = "INSERT INTO event_chain (id, anchor_seq, anchor_hash, head_seq, head_hash, "
		      "count, bytes, boot_id) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7) "
		      "ON CONFLICT (id) DO UPDATE SET anchor_seq = ?1, anchor_hash = ?2, "
		      "head_seq = ?3, head_hash = ?4, count = ?5, bytes = ?6, boot_id = ?7",
	[REMOVE] = "DELETE FROM events WHERE seq <= ?1",
	[LOAD] = "SELECT anchor_seq, anchor_hash, head_seq, head_hash, count, bytes, boot_id "
		 "FROM event_chain",
	[LAST] = "SELECT max(seq) FROM events",
	[EACH] = "SELECT seq, at_us, type, project_id, sandbox_id, exec_id, key_id, request_id, "
		 "data, prev, hash FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2",
};
static_assert(ARRAY_SIZE(statements) == STATEMENT_COUNT, "a statement has no text");

static const struct column columns[] = {
	COLUMN(struct event_row, seq),        COLUMN(struct event_row, at_us),
	COLUMN(struct event_row, type),       COLUMN(struct event_row, project_id),
	COLUMN(struct event_row, sandbox_id), COLUMN(struct event_row, exec_id),
	COLUMN(struct event_row, key_id),     COLUMN(struct event_row, request_id),
	COLUMN(struct event_row, data),       COLUMN(struct event_row, prev),
	COLUMN(struct event_row, hash),
};

/* The boot id follows them; it is copied, not borrowed. */
static const struct column chain_columns[] = {
	COLUMN(struct event_chain_row, anchor_seq), COLUMN(struct event_chain_row, anchor_hash),
	COLUMN(struct event_chain_row, head_seq),   COLUMN(struct event_chain_row, head_hash),
	COLUMN(struct event_chain_row, count),      COLUMN(struct event_chain_row, bytes),
};

struct store_events {
	struct statements all;
	sqlite3_stmt *prepared[STATEMENT_COUNT];
};

DEFINE_FREEP(struct store_events, store_events_close)

int store_events_open(struct store *st, struct store_events **ret, struct err *err)
{
	auto_call(store_events_closep) struct store_events *se = xnew0(struct store_events);
	int r;

	se->all = (struct statements){.db = store_db(st),
	                              .room_for = "events",
	                              .failure = "the event log cannot be used",
	                              .prepared = se->prepared,
	                              .n = STATEMENT_COUNT};
	r = statements_open(&se->all, statements, err);
	if (r < 0)
		return r;
	*ret = take_ptr(se);
	return 0;
}

void store_events_close(struct store_events *se)
{
	if (se)
		statements_close(&se->all);
	free(se);
}

static int run(struct store_events *se, enum statement which, struct err *err)
{
	return statements_run(&se->all, which, err);
}

static int add(struct store_events *se, const struct event_row *row, struct err *err)
{
	bind_row(se->prepared[ADD], columns, ARRAY_SIZE(columns), row);
	return run(se, ADD, err);
}

static int set_chain(struct store_events *se, const struct event_chain_row *chain, struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[SET_CHAIN];

	bind_row(stmt, chain_columns, ARRAY_SIZE(chain_columns), chain);
	bind_text(stmt, 7, chain->boot_id);
	return run(se, SET_CHAIN, err);
}

/* SQLite may have rolled back by itself (a full disk); then there is nothing left to do. */
static int finish(struct store_events *se, int r, struct err *err)
{
	if (r == 0)
		r = run(se, COMMIT, err);
	if (r < 0)
		(void)!run(se, ROLLBACK, NULL);
	return r;
}

int store_events_add(struct store_events *se, const struct event_row *rows, size_t n,
                     const struct event_chain_row *chain, int (*also)(void *arg, struct err *err),
                     void *arg, struct err *err)
{
	int r = run(se, BEGIN, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add(se, &rows[i], err);
	if (r == 0)
		r = set_chain(se, chain, err);
	if (r == 0 && also)
		r = also(arg, err);
	return finish(se, r, err);
}

int store_events_remove(struct store_events *se, const struct event_chain_row *chain,
                        struct err *err)
{
	int r = run(se, BEGIN, err);

	if (r < 0)
		return r;
	bind_u64(se->prepared[REMOVE], 1, chain->anchor_seq);
	r = run(se, REMOVE, err);
	if (r == 0)
		r = set_chain(se, chain, err);
	return finish(se, r, err);
}

static int load_chain(struct store_events *se, struct event_chain_row *ret, struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[LOAD];
	int code = sqlite3_step(stmt);

	*ret = (struct event_chain_row){0};
	if (code == SQLITE_ROW) {
		read_row(stmt, chain_columns, ARRAY_SIZE(chain_columns), ret);
		(void)snprintf(ret->boot_id, sizeof(ret->boot_id), "%s",
		               (const char *)sqlite3_column_text(stmt, 6));
	}
	(void)sqlite3_reset(stmt);
	return code == SQLITE_ROW || code == SQLITE_DONE ? 0
	                                                 : statements_failed(&se->all, code, err);
}

int store_events_load(struct store_events *se, struct event_chain_row *ret, uint64_t *ret_last_seq,
                      struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[LAST];
	int code = sqlite3_step(stmt);

	if (code == SQLITE_ROW)
		*ret_last_seq = (uint64_t)sqlite3_column_int64(stmt, 0);
	(void)sqlite3_reset(stmt);
	return code == SQLITE_ROW ? load_chain(se, ret, err)
	                          : statements_failed(&se->all, code, err);
}

int store_events_each(struct store_events *se, uint64_t after, size_t n,
                      int (*fn)(const struct event_row *row, void *arg), void *arg, struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[EACH];
	struct event_row row;
	int code = SQLITE_DONE, r = 0;

	bind_u64(stmt, 1, after);
	bind_u64(stmt, 2, n);
	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		read_row(stmt, columns, ARRAY_SIZE(columns), &row);
		r = fn(&row, arg);
	}
	return statements_end(&se->all, EACH, code, r, err);
}
