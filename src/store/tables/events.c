// SPDX-License-Identifier: Apache-2.0
/* Every change is one transaction: the entries and the chain's row. */
#include "store/tables/events.h"

#include "store/inside.h"
#include "store/statement.h"

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

struct store_events {
	sqlite3 *db;
	sqlite3_stmt *prepared[STATEMENT_COUNT];
};

DEFINE_FREEP(struct store_events, store_events_close)

int store_events_open(struct store *st, struct store_events **ret, struct err *err)
{
	auto_call(store_events_closep) struct store_events *se = xnew0(struct store_events);

	se->db = store_db(st);
	for (size_t i = 0; i < STATEMENT_COUNT; i++)
		if (sqlite3_prepare_v3(se->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
		                       &se->prepared[i], NULL) != SQLITE_OK)
			return err_set(err, ERR_INTERNAL, 0, "the event log cannot be used: %s",
			               sqlite3_errmsg(se->db));
	*ret = take_ptr(se);
	return 0;
}

void store_events_close(struct store_events *se)
{
	if (!se)
		return;
	for (size_t i = 0; i < STATEMENT_COUNT; i++)
		(void)sqlite3_finalize(se->prepared[i]);
	free(se);
}

static int failed(const struct store_events *se, int code, struct err *err)
{
	if (code == SQLITE_FULL)
		return err_set(err, ERR_HOST_DISK_FULL, ENOSPC,
		               "the host's disk has no room for events");
	return err_set(err, ERR_INTERNAL, EIO, "the event log cannot be used (%s)",
	               sqlite3_errmsg(se->db));
}

static int run(struct store_events *se, enum statement which, struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[which];
	int code = sqlite3_step(stmt);
	int r = code == SQLITE_DONE ? 0 : failed(se, code, err);

	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return r;
}

static void bind_hash(sqlite3_stmt *stmt, int at, const unsigned char hash[EVENT_HASH_SIZE])
{
	(void)sqlite3_bind_blob(stmt, at, hash, EVENT_HASH_SIZE, SQLITE_STATIC);
}

static int add(struct store_events *se, const struct event_row *row, struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[ADD];
	const char *const texts[] = {row->type,   row->project_id, row->sandbox_id, row->exec_id,
	                             row->key_id, row->request_id, row->data};

	bind_u64(stmt, 1, row->seq);
	bind_u64(stmt, 2, row->at_us);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		bind_text(stmt, 3 + (int)i, texts[i]);
	bind_hash(stmt, 10, row->prev);
	bind_hash(stmt, 11, row->hash);
	return run(se, ADD, err);
}

static int set_chain(struct store_events *se, const struct event_chain_row *chain, struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[SET_CHAIN];

	bind_u64(stmt, 1, chain->anchor_seq);
	bind_hash(stmt, 2, chain->anchor_hash);
	bind_u64(stmt, 3, chain->head_seq);
	bind_hash(stmt, 4, chain->head_hash);
	bind_u64(stmt, 5, chain->count);
	bind_u64(stmt, 6, chain->bytes);
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

static uint64_t column_u64(sqlite3_stmt *stmt, int at)
{
	return (uint64_t)sqlite3_column_int64(stmt, at);
}

static const char *column_text(sqlite3_stmt *stmt, int at)
{
	const char *text = (const char *)sqlite3_column_text(stmt, at);

	return text ? text : "";
}

static void column_hash(sqlite3_stmt *stmt, int at, unsigned char ret[EVENT_HASH_SIZE])
{
	assert(sqlite3_column_bytes(stmt, at) == EVENT_HASH_SIZE); /* the schema holds it */
	memcpy(ret, sqlite3_column_blob(stmt, at), EVENT_HASH_SIZE);
}

static int load_chain(struct store_events *se, struct event_chain_row *ret, struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[LOAD];
	int code = sqlite3_step(stmt);

	*ret = (struct event_chain_row){0};
	if (code == SQLITE_ROW) {
		ret->anchor_seq = column_u64(stmt, 0);
		column_hash(stmt, 1, ret->anchor_hash);
		ret->head_seq = column_u64(stmt, 2);
		column_hash(stmt, 3, ret->head_hash);
		ret->count = column_u64(stmt, 4);
		ret->bytes = column_u64(stmt, 5);
		(void)snprintf(ret->boot_id, sizeof(ret->boot_id), "%s", column_text(stmt, 6));
	}
	(void)sqlite3_reset(stmt);
	return code == SQLITE_ROW || code == SQLITE_DONE ? 0 : failed(se, code, err);
}

int store_events_load(struct store_events *se, struct event_chain_row *ret, uint64_t *ret_last_seq,
                      struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[LAST];
	int code = sqlite3_step(stmt);

	if (code == SQLITE_ROW)
		*ret_last_seq = column_u64(stmt, 0);
	(void)sqlite3_reset(stmt);
	return code == SQLITE_ROW ? load_chain(se, ret, err) : failed(se, code, err);
}

int store_events_each(struct store_events *se, uint64_t after, size_t n,
                      int (*fn)(const struct event_row *row, void *arg), void *arg, struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[EACH];
	int code, r = 0;

	bind_u64(stmt, 1, after);
	bind_u64(stmt, 2, n);
	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct event_row row = {
			.seq = column_u64(stmt, 0),
			.at_us = column_u64(stmt, 1),
			.type = column_text(stmt, 2),
			.project_id = column_text(stmt, 3),
			.sandbox_id = column_text(stmt, 4),
			.exec_id = column_text(stmt, 5),
			.key_id = column_text(stmt, 6),
			.request_id = column_text(stmt, 7),
			.data = column_text(stmt, 8),
		};

		column_hash(stmt, 9, row.prev);
		column_hash(stmt, 10, row.hash);
		r = fn(&row, arg);
	}
	if (r == 0 && code != SQLITE_DONE)
		r = failed(se, code, err);
	(void)sqlite3_reset(stmt);
	return MIN(r, 0);
}
