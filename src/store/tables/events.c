// SPDX-License-Identifier: Apache-2.0
/* Every change is one transaction: the entries and the rows of their chains. */
#include "store/tables/events.h"

#include "store/table.h"

#include <assert.h>
#include <string.h>

enum statement {
	BEGIN,
	COMMIT,
	ROLLBACK,
	ADD,
	ADD_PLACE,
	SET_CHAIN,
	SET_FORMER,
	REMOVE,
	REMOVE_PLACES,
	REMOVE_FORMER,
	REMOVE_FORMER_PLACES,
	FORGET,
	LOAD,
	LOAD_FORMER,
	LAST,
	FIRST,
	EACH,
	EACH_OF_PROJECT,
	EACH_BACK,
	EACH_OF_PROJECT_BACK,
	STATEMENT_COUNT
};

#define COLUMNS                                                                                    \
	"e.place, e.seq, e.at_us, e.type, e.project_id, e.sandbox_id, e.exec_id, e.key_id, "       \
	"e.request_id, e.client, e.agent, e.data, e.prev, e.hash, e.person"
#define CHAIN_COLUMNS "anchor_seq, anchor_hash, head_seq, head_hash, count, bytes"
#define CHAIN_SEQ     "9223372036854775807" /* of the row about the chain itself */
#define OF_CHAIN      "event_chains c JOIN events e ON e.place = c.place WHERE c.seq < " CHAIN_SEQ

static const char *const statements[] = {
	[BEGIN] = "BEGIN IMMEDIATE",
	[COMMIT] = "COMMIT",
	[ROLLBACK] = "ROLLBACK",
	[ADD] = "INSERT INTO events (place, seq, at_us, type, project_id, sandbox_id, exec_id, "
		"key_id, request_id, client, agent, data, prev, hash, person) VALUES (?1, ?2, ?3, "
		"?4, ?5, "
		"?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
	[ADD_PLACE] = "INSERT OR REPLACE INTO event_chains (project_id, seq, place) VALUES (?1, "
		      "?2, ?3)",
	[SET_CHAIN] =
		"INSERT INTO event_chains (" CHAIN_COLUMNS ", anchor_place, place, "
		"project_id, boot_id, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
		"?10, " CHAIN_SEQ ") ON CONFLICT (project_id, seq) DO UPDATE SET anchor_seq = ?1, "
		"anchor_hash = ?2, head_seq = ?3, head_hash = ?4, count = ?5, bytes = ?6, "
		"anchor_place = ?7, place = ?8, boot_id = ?10",
	[SET_FORMER] = "UPDATE event_chain SET anchor_seq = ?1, anchor_hash = ?2, count = ?3, "
		       "bytes = ?4",
	[REMOVE] = "DELETE FROM events WHERE place IN (SELECT place FROM event_chains WHERE "
		   "project_id = ?1 AND seq <= ?2 AND place > ?3)",
	[REMOVE_PLACES] = "DELETE FROM event_chains WHERE project_id = ?1 AND seq <= ?2 AND place "
			  "> ?3",
	[REMOVE_FORMER] = "DELETE FROM events WHERE place <= ?1",
	[REMOVE_FORMER_PLACES] = "DELETE FROM event_chains WHERE (project_id, seq) IN (SELECT "
				 "project_id, seq FROM events WHERE place <= ?1)",
	[FORGET] = "DELETE FROM event_chains WHERE project_id = ?1",
	/* From project to project: it must not look at the place of every entry. */
	[LOAD] = "WITH RECURSIVE p (id) AS (SELECT min(project_id) FROM event_chains UNION ALL "
		 "SELECT (SELECT min(project_id) FROM event_chains WHERE project_id > p.id) FROM p "
		 "WHERE p.id IS NOT NULL) SELECT " CHAIN_COLUMNS ", anchor_place, place, "
		 "project_id, boot_id, EXISTS (SELECT 1 FROM projects WHERE projects.id = "
		 "substr(p.id, "
		 "1, instr(p.id || '/', '/') - 1)) "
		 "FROM p JOIN event_chains ON project_id = p.id AND seq = " CHAIN_SEQ,
	[LOAD_FORMER] = "SELECT " CHAIN_COLUMNS " FROM event_chain",
	[LAST] = "SELECT e.seq FROM " OF_CHAIN " AND c.project_id = ?1 ORDER BY c.seq DESC LIMIT 1",
	[FIRST] = "SELECT e.at_us FROM " OF_CHAIN " AND c.project_id = ?1 AND c.seq > ?2 ORDER BY "
		  "c.seq LIMIT 1",
	[EACH] = "SELECT " COLUMNS " FROM events e WHERE e.place > ?1 ORDER BY e.place LIMIT ?2",
	[EACH_OF_PROJECT] = "SELECT " COLUMNS " FROM " OF_CHAIN " AND c.project_id = ?3 AND c.seq "
			    "> ?1 ORDER BY c.seq LIMIT ?2",
	[EACH_BACK] = "SELECT " COLUMNS " FROM events e WHERE e.place > ?1 AND e.place < ?4 ORDER "
		      "BY e.place DESC LIMIT ?2",
	[EACH_OF_PROJECT_BACK] = "SELECT " COLUMNS " FROM " OF_CHAIN " AND c.project_id = ?3 AND "
				 "c.seq > ?1 AND c.seq < ?4 ORDER BY c.seq DESC LIMIT ?2",
};
static_assert(ARRAY_SIZE(statements) == STATEMENT_COUNT, "a statement has no text");

static const struct column columns[] = {
	COLUMN(struct event_row, place),      COLUMN(struct event_row, seq),
	COLUMN(struct event_row, at_us),      COLUMN(struct event_row, type),
	COLUMN(struct event_row, project_id), COLUMN(struct event_row, sandbox_id),
	COLUMN(struct event_row, exec_id),    COLUMN(struct event_row, key_id),
	COLUMN(struct event_row, request_id), COLUMN(struct event_row, client),
	COLUMN(struct event_row, agent),      COLUMN(struct event_row, data),
	COLUMN(struct event_row, prev),       COLUMN(struct event_row, hash),
	COLUMN(struct event_row, person),
};

/* The former chain has the first six. The project and the boot id follow them; they are copied, not
 * borrowed. */
static const struct column chain_columns[] = {
	COLUMN(struct event_chain_row, anchor_seq),   COLUMN(struct event_chain_row, anchor_hash),
	COLUMN(struct event_chain_row, head_seq),     COLUMN(struct event_chain_row, head_hash),
	COLUMN(struct event_chain_row, count),        COLUMN(struct event_chain_row, bytes),
	COLUMN(struct event_chain_row, anchor_place), COLUMN(struct event_chain_row, head_place),
};
#define FORMER_COLUMNS 6

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
	sqlite3_stmt *place = se->prepared[ADD_PLACE];
	int r;

	bind_row(se->prepared[ADD], columns, ARRAY_SIZE(columns), row);
	r = run(se, ADD, err);
	if (r < 0)
		return r;
	bind_text(place, 1, row->chain);
	bind_u64(place, 2, row->seq);
	bind_u64(place, 3, row->place);
	return run(se, ADD_PLACE, err);
}

static int set_chain(struct store_events *se, const struct event_chain_row *chain, struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[SET_CHAIN];

	bind_row(stmt, chain_columns, ARRAY_SIZE(chain_columns), chain);
	bind_text(stmt, 9, chain->project_id);
	bind_text(stmt, 10, chain->boot_id);
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
                     const struct event_chain_row *const *chains, size_t n_chains,
                     int (*also)(void *arg, struct err *err), void *arg, struct err *err)
{
	int r = run(se, BEGIN, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add(se, &rows[i], err);
	for (size_t i = 0; r == 0 && i < n_chains; i++)
		r = set_chain(se, chains[i], err);
	if (r == 0 && also)
		r = also(arg, err);
	return finish(se, r, err);
}

int store_events_remove(struct store_events *se, const struct event_chain_row *chain,
                        uint64_t former_place, struct err *err)
{
	static const enum statement both[] = {REMOVE, REMOVE_PLACES};
	int r = run(se, BEGIN, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(both); i++) {
		sqlite3_stmt *stmt = se->prepared[both[i]];

		bind_text(stmt, 1, chain->project_id);
		bind_u64(stmt, 2, chain->anchor_seq);
		bind_u64(stmt, 3, former_place);
		r = run(se, both[i], err);
	}
	if (r == 0)
		r = set_chain(se, chain, err);
	return finish(se, r, err);
}

static const struct column former_columns[] = {
	COLUMN(struct event_chain_row, anchor_seq),
	COLUMN(struct event_chain_row, anchor_hash),
	COLUMN(struct event_chain_row, count),
	COLUMN(struct event_chain_row, bytes),
};

int store_events_remove_former(struct store_events *se, const struct event_chain_row *former,
                               struct err *err)
{
	int r = run(se, BEGIN, err);

	if (r < 0)
		return r;
	bind_u64(se->prepared[REMOVE_FORMER_PLACES], 1, former->anchor_seq);
	r = run(se, REMOVE_FORMER_PLACES, err);
	if (r == 0) {
		bind_u64(se->prepared[REMOVE_FORMER], 1, former->anchor_seq);
		r = run(se, REMOVE_FORMER, err);
	}
	if (r == 0) {
		bind_row(se->prepared[SET_FORMER], former_columns, ARRAY_SIZE(former_columns),
		         former);
		r = run(se, SET_FORMER, err);
	}
	return finish(se, r, err);
}

int store_events_load_former(struct store_events *se, struct event_chain_row *ret, struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[LOAD_FORMER];
	int code = sqlite3_step(stmt);

	*ret = (struct event_chain_row){0};
	if (code == SQLITE_ROW)
		read_row(stmt, chain_columns, FORMER_COLUMNS, ret);
	(void)sqlite3_reset(stmt);
	return code == SQLITE_ROW || code == SQLITE_DONE ? 0
	                                                 : statements_failed(&se->all, code, err);
}

static void copy_text(sqlite3_stmt *stmt, int column, char *ret, size_t size)
{
	const char *text = (const char *)sqlite3_column_text(stmt, column);

	(void)snprintf(ret, size, "%s", text ? text : "");
}

int store_events_load(struct store_events *se,
                      int (*fn)(const struct event_chain_row *row, bool is_gone, void *arg),
                      void *arg, struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[LOAD];
	int code = SQLITE_DONE, r = 0;

	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct event_chain_row row = {0};

		read_row(stmt, chain_columns, ARRAY_SIZE(chain_columns), &row);
		copy_text(stmt, 8, row.project_id, sizeof(row.project_id));
		copy_text(stmt, 9, row.boot_id, sizeof(row.boot_id));
		r = fn(&row, strcspn(row.project_id, "/") > 0 && sqlite3_column_int(stmt, 10) == 0,
		       arg);
	}
	return statements_end(&se->all, LOAD, code, r, err);
}

int store_events_forget(struct store_events *se, const char *project_id, struct err *err)
{
	bind_text(se->prepared[FORGET], 1, project_id);
	return run(se, FORGET, err);
}

static int read_number(struct store_events *se, enum statement which, uint64_t *ret,
                       struct err *err)
{
	int code = sqlite3_step(se->prepared[which]);

	*ret = code == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(se->prepared[which], 0) : 0;
	return statements_end(&se->all, which, code == SQLITE_ROW ? SQLITE_DONE : code, 0, err);
}

int store_events_ends(struct store_events *se, const char *project_id, uint64_t after,
                      uint64_t *ret_last_seq, uint64_t *ret_first_us, struct err *err)
{
	int r;

	bind_text(se->prepared[LAST], 1, project_id);
	r = read_number(se, LAST, ret_last_seq, err);
	if (r < 0)
		return r;
	bind_text(se->prepared[FIRST], 1, project_id);
	bind_u64(se->prepared[FIRST], 2, after);
	return read_number(se, FIRST, ret_first_us, err);
}

/* Its numbers are bound, but for those that only one of the statements has. */
static int each(struct store_events *se, enum statement which, const struct event_range *range,
                int (*fn)(const struct event_row *row, void *arg), void *arg, struct err *err)
{
	sqlite3_stmt *stmt = se->prepared[which];
	struct event_row row;
	int code = SQLITE_DONE, r = 0;

	bind_u64(stmt, 1, range->after);
	bind_u64(stmt, 2, range->n);
	if (range->chain)
		bind_text(stmt, 3, range->chain);
	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		read_row(stmt, columns, ARRAY_SIZE(columns), &row);
		r = fn(&row, arg);
	}
	return statements_end(&se->all, which, code, r, err);
}

int store_events_each(struct store_events *se, const struct event_range *range,
                      int (*fn)(const struct event_row *row, void *arg), void *arg, struct err *err)
{
	return each(se, range->chain ? EACH_OF_PROJECT : EACH, range, fn, arg, err);
}

int store_events_each_back(struct store_events *se, const struct event_range *range,
                           uint64_t before, int (*fn)(const struct event_row *row, void *arg),
                           void *arg, struct err *err)
{
	enum statement which = range->chain ? EACH_OF_PROJECT_BACK : EACH_BACK;

	bind_u64(se->prepared[which], 4, before);
	return each(se, which, range, fn, arg, err);
}
