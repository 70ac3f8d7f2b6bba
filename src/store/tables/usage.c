// SPDX-License-Identifier: Apache-2.0
/*
 * The store's writes are not synced one by one (store.c). Usage is money, so a batch can ask for a
 * sync: it is then committed with synchronous=FULL, which syncs the WAL, and with it all earlier
 * commits.
 */
#include "store/tables/usage.h"

#include "store/table.h"

#include <assert.h>
#include <string.h>

/* clang-format off */
#define FIGURES  "running_ms, cpu_ns, memory_mib_ms, memory_used_mib_ms, disk_mib_ms, " \
		 "network_in_bytes, network_out_bytes, execs, calls, creates"
#define VALUES   "?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20"
#define FIRST_FIGURE 11
#define ADD_ALL  "running_ms = running_ms + ?11, cpu_ns = cpu_ns + ?12, " \
		 "memory_mib_ms = memory_mib_ms + ?13, memory_used_mib_ms = memory_used_mib_ms + ?14, " \
		 "disk_mib_ms = disk_mib_ms + ?15, network_in_bytes = network_in_bytes + ?16, " \
		 "network_out_bytes = network_out_bytes + ?17, execs = execs + ?18, " \
		 "calls = calls + ?19, creates = creates + ?20"
#define SET_ALL  "running_ms = ?11, cpu_ns = ?12, memory_mib_ms = ?13, memory_used_mib_ms = ?14, " \
		 "disk_mib_ms = ?15, network_in_bytes = ?16, network_out_bytes = ?17, execs = ?18, " \
		 "calls = ?19, creates = ?20"
/* clang-format on */

static const char *const figure_names[] = {
	[USAGE_RUNNING_MS] = "running_ms",
	[USAGE_CPU_NS] = "cpu_ns",
	[USAGE_MEMORY_MIB_MS] = "memory_mib_ms",
	[USAGE_MEMORY_USED_MIB_MS] = "memory_used_mib_ms",
	[USAGE_DISK_MIB_MS] = "disk_mib_ms",
	[USAGE_NETWORK_IN_BYTES] = "network_in_bytes",
	[USAGE_NETWORK_OUT_BYTES] = "network_out_bytes",
	[USAGE_EXECS] = "execs",
	[USAGE_CALLS] = "calls",
	[USAGE_CREATES] = "creates",
};
static_assert(ARRAY_SIZE(figure_names) == USAGE_FIGURE_COUNT, "a figure has no name");

enum statement {
	BEGIN,
	COMMIT,
	ROLLBACK,
	ADD_TO_SANDBOX,
	ADD_TO_KEY,
	PUT_METER,
	DELETE_METER,
	EACH_METER,
	EACH_DAY,
	EACH_DAY_OF_ALL,
	EACH_SANDBOX,
	OF_SANDBOX,
	PRUNE,
	PUT_QUOTA,
	DELETE_QUOTA,
	EACH_QUOTA,
	STATEMENT_COUNT
};

static const char *const statements[] = {
	[BEGIN] = "BEGIN IMMEDIATE",
	[COMMIT] = "COMMIT",
	[ROLLBACK] = "ROLLBACK",
	[ADD_TO_SANDBOX] =
		"INSERT INTO usage_of_sandboxes (project_id, sandbox_id, day, " FIGURES ") "
		"VALUES (?1, ?2, ?3, " VALUES ") "
		"ON CONFLICT (project_id, sandbox_id, day) DO UPDATE SET " ADD_ALL,
	[ADD_TO_KEY] = "INSERT INTO usage_of_keys (project_id, key_id, day, " FIGURES ") "
		       "VALUES (?1, ?2, ?3, " VALUES ") "
		       "ON CONFLICT (project_id, day, key_id) DO UPDATE SET " ADD_ALL,
	[PUT_METER] =
		"INSERT INTO meters (sandbox_id, project_id, key_id, boot_id, charged_to_us, "
		"is_held, memory_limit_bytes, counted_cpu_ns, memory_bytes, disk_bytes, " FIGURES
		") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, " VALUES ") "
		"ON CONFLICT (sandbox_id) DO UPDATE SET boot_id = ?4, charged_to_us = ?5, "
		"is_held = ?6, memory_limit_bytes = ?7, counted_cpu_ns = ?8, "
		"memory_bytes = ?9, disk_bytes = ?10, " SET_ALL,
	[DELETE_METER] = "DELETE FROM meters WHERE sandbox_id = ?1",
	[EACH_METER] = "SELECT sandbox_id, project_id, key_id, boot_id, charged_to_us, is_held, "
		       "memory_limit_bytes, counted_cpu_ns, memory_bytes, disk_bytes, " FIGURES
		       " FROM meters",
	[EACH_DAY] = "SELECT project_id, '', key_id, day, " FIGURES " FROM usage_of_keys "
		     "WHERE project_id = ?1 AND day BETWEEN ?2 AND ?3 "
		     "ORDER BY project_id, day, key_id",
	[EACH_DAY_OF_ALL] = "SELECT project_id, '', key_id, day, " FIGURES " FROM usage_of_keys "
			    "WHERE day BETWEEN ?2 AND ?3 ORDER BY project_id, day, key_id",
	[EACH_SANDBOX] = "SELECT project_id, sandbox_id, '', day, " FIGURES
			 " FROM usage_of_sandboxes WHERE project_id = ?1 AND sandbox_id > ?2 "
			 "ORDER BY project_id, sandbox_id, day",
	[OF_SANDBOX] = "SELECT project_id, sandbox_id, '', day, " FIGURES
		       " FROM usage_of_sandboxes WHERE project_id = ?1 AND sandbox_id = ?2 ",
	[PRUNE] = "DELETE FROM usage_of_sandboxes WHERE (project_id, sandbox_id, day) IN "
		  "(SELECT project_id, sandbox_id, day FROM usage_of_sandboxes INDEXED BY "
		  "usage_by_day WHERE day < ?1 LIMIT 200)",
	[PUT_QUOTA] = "INSERT OR REPLACE INTO quotas (owner_id, json) VALUES (?1, ?2)",
	[DELETE_QUOTA] = "DELETE FROM quotas WHERE owner_id = ?1",
	[EACH_QUOTA] = "SELECT owner_id, json FROM quotas",
};
static_assert(ARRAY_SIZE(statements) == STATEMENT_COUNT, "a statement has no text");

/* The columns of a meter; its figures follow them. */
static const struct column meter_columns[] = {
	COLUMN(struct meter_row, sandbox_id),
	COLUMN(struct meter_row, project_id),
	COLUMN(struct meter_row, key_id),
	COLUMN(struct meter_row, boot_id),
	COLUMN(struct meter_row, charged_to_us),
	COLUMN(struct meter_row, is_held),
	COLUMN(struct meter_row, memory_limit_bytes),
	COLUMN(struct meter_row, counted_cpu_ns),
	COLUMN(struct meter_row, memory_bytes),
	COLUMN(struct meter_row, disk_bytes),
};
static_assert(ARRAY_SIZE(meter_columns) == FIRST_FIGURE - 1, "the figures do not follow");

struct store_usage {
	struct store *store;
	struct statements all;
	sqlite3_stmt *prepared[STATEMENT_COUNT];
	bool is_synced; /* the batch that is open */
};

DEFINE_FREEP(struct store_usage, store_usage_close)

const char *usage_figure_name(enum usage_figure figure)
{
	return figure_names[figure];
}

int store_usage_open(struct store *st, struct store_usage **ret, struct err *err)
{
	auto_call(store_usage_closep) struct store_usage *su = xnew0(struct store_usage);
	int r;

	su->store = st;
	su->all = (struct statements){.db = store_db(st),
	                              .room_for = "usage",
	                              .failure = "usage cannot be recorded",
	                              .prepared = su->prepared,
	                              .n = STATEMENT_COUNT};
	r = statements_open(&su->all, statements, err);
	if (r < 0)
		return r;
	*ret = take_ptr(su);
	return 0;
}

void store_usage_close(struct store_usage *su)
{
	if (su)
		statements_close(&su->all);
	free(su);
}

static int run(struct store_usage *su, enum statement which, struct err *err)
{
	return statements_run(&su->all, which, err);
}

/* A pragma takes effect when it is prepared, so it cannot be one of the prepared statements. */
static int set_sync(struct store_usage *su, bool on, struct err *err)
{
	const char *text = on ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";
	int code = sqlite3_exec(su->all.db, text, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : statements_failed(&su->all, code, err);
}

int store_usage_begin(struct store_usage *su, bool is_synced, struct err *err)
{
	int r = is_synced ? set_sync(su, true, err) : 0;

	if (r == 0)
		r = run(su, BEGIN, err);
	if (r < 0 && is_synced)
		(void)!set_sync(su, false, NULL);
	su->is_synced = r == 0 && is_synced;
	return r;
}

int store_usage_end(struct store_usage *su, int r, struct err *err)
{
	if (r >= 0)
		r = run(su, COMMIT, err);
	if (r < 0) /* SQLite may have rolled back by itself; then this does nothing */
		(void)!run(su, ROLLBACK, NULL);
	if (su->is_synced)
		(void)!set_sync(su, false, NULL);
	su->is_synced = false;
	return r;
}

static void bind_usage(sqlite3_stmt *stmt, const struct usage *u)
{
	for (int i = 0; i < USAGE_FIGURE_COUNT; i++)
		bind_u64(stmt, FIRST_FIGURE + i, u->of[i]);
}

static int add_to(struct store_usage *su, enum statement which, const struct usage_row *row,
                  const char *id, struct err *err)
{
	sqlite3_stmt *stmt = su->prepared[which];

	bind_text(stmt, 1, row->project_id);
	bind_text(stmt, 2, id);
	(void)sqlite3_bind_int(stmt, 3, row->day);
	bind_usage(stmt, &row->usage);
	return run(su, which, err);
}

int store_usage_add(struct store_usage *su, const struct usage_row *row, struct err *err)
{
	int r = add_to(su, ADD_TO_SANDBOX, row, row->sandbox_id, err);

	return r < 0 ? r : add_to(su, ADD_TO_KEY, row, row->key_id, err);
}

int store_usage_put_meter(struct store_usage *su, const struct meter_row *row, struct err *err)
{
	sqlite3_stmt *stmt = su->prepared[PUT_METER];

	bind_row(stmt, meter_columns, ARRAY_SIZE(meter_columns), row);
	bind_usage(stmt, &row->total);
	return run(su, PUT_METER, err);
}

int store_usage_delete_meter(struct store_usage *su, const char *sandbox_id, struct err *err)
{
	bind_text(su->prepared[DELETE_METER], 1, sandbox_id);
	return run(su, DELETE_METER, err);
}

static const char *column_text(sqlite3_stmt *stmt, int at)
{
	const char *text = (const char *)sqlite3_column_text(stmt, at);

	return text ? text : "";
}

static uint64_t column_u64(sqlite3_stmt *stmt, int at)
{
	return (uint64_t)sqlite3_column_int64(stmt, at);
}

static struct usage column_usage(sqlite3_stmt *stmt, int at)
{
	struct usage u;

	for (int i = 0; i < USAGE_FIGURE_COUNT; i++)
		u.of[i] = column_u64(stmt, at + i);
	return u;
}

int store_usage_each_meter(struct store_usage *su,
                           int (*fn)(const struct meter_row *row, void *arg), void *arg,
                           struct err *err)
{
	sqlite3_stmt *stmt = su->prepared[EACH_METER];
	int code = SQLITE_DONE, r = 0;

	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct meter_row row = {.total = column_usage(stmt, FIRST_FIGURE - 1)};

		read_row(stmt, meter_columns, ARRAY_SIZE(meter_columns), &row);
		r = fn(&row, arg);
	}
	return statements_end(&su->all, EACH_METER, code, r, err);
}

static int each(struct store_usage *su, enum statement which, store_usage_fn fn, void *arg,
                struct err *err)
{
	sqlite3_stmt *stmt = su->prepared[which];
	int code = SQLITE_DONE, r = 0;

	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct usage_row row = {
			.project_id = column_text(stmt, 0),
			.sandbox_id = column_text(stmt, 1),
			.key_id = column_text(stmt, 2),
			.day = sqlite3_column_int(stmt, 3),
			.usage = column_usage(stmt, 4),
		};

		r = fn(&row, arg);
	}
	return statements_end(&su->all, which, code, r, err);
}

int store_usage_each_day(struct store_usage *su, const char *project_id, int32_t from, int32_t to,
                         store_usage_fn fn, void *arg, struct err *err)
{
	enum statement which = project_id ? EACH_DAY : EACH_DAY_OF_ALL;
	sqlite3_stmt *stmt = su->prepared[which];

	if (project_id)
		bind_text(stmt, 1, project_id);
	(void)sqlite3_bind_int(stmt, 2, from);
	(void)sqlite3_bind_int(stmt, 3, to);
	return each(su, which, fn, arg, err);
}

int store_usage_each_sandbox(struct store_usage *su, const char *project_id, const char *after_id,
                             store_usage_fn fn, void *arg, struct err *err)
{
	bind_text(su->prepared[EACH_SANDBOX], 1, project_id);
	bind_text(su->prepared[EACH_SANDBOX], 2, after_id);
	return each(su, EACH_SANDBOX, fn, arg, err);
}

int store_usage_of_sandbox(struct store_usage *su, const char *project_id, const char *sandbox_id,
                           store_usage_fn fn, void *arg, struct err *err)
{
	bind_text(su->prepared[OF_SANDBOX], 1, project_id);
	bind_text(su->prepared[OF_SANDBOX], 2, sandbox_id);
	return each(su, OF_SANDBOX, fn, arg, err);
}

int store_usage_prune(struct store_usage *su, int32_t before, struct err *err)
{
	(void)sqlite3_bind_int(su->prepared[PRUNE], 1, before);
	return run(su, PRUNE, err);
}

int store_usage_put_quota(struct store_usage *su, const char *owner_id, const char *json,
                          struct err *err)
{
	enum statement which = json ? PUT_QUOTA : DELETE_QUOTA;

	bind_text(su->prepared[which], 1, owner_id);
	if (json)
		bind_text(su->prepared[which], 2, json);
	store_count_durable(su->store);
	return run(su, which, err);
}

int store_usage_each_quota(struct store_usage *su,
                           int (*fn)(const char *owner_id, const char *json, void *arg), void *arg,
                           struct err *err)
{
	sqlite3_stmt *stmt = su->prepared[EACH_QUOTA];
	int code = SQLITE_DONE, r = 0;

	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW)
		r = fn(column_text(stmt, 0), column_text(stmt, 1), arg);
	return statements_end(&su->all, EACH_QUOTA, code, r, err);
}
