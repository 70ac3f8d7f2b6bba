// SPDX-License-Identifier: Apache-2.0
/*
 * One statement per call, prepared once. Writes go to the WAL without a sync of their own
 * (synchronous=NORMAL). A killed gateway loses nothing; a power cut loses at most the last moments,
 * and the sandboxes are gone then anyway. Changes that must survive a power cut are counted, and a
 * thread syncs the WAL for many of them together before they are acknowledged. A WAL is read up to
 * the first incomplete frame, so synced changes are there whatever was written after them.
 * locking_mode=EXCLUSIVE keeps all other processes out while we run, and needs no shared memory
 * file.
 *
 * SQLite removes the WAL at a clean exit, so a WAL at the start means an unclean exit. A damaged
 * file is never repaired or replaced: check.h checks the WAL and the tables, and tries a write
 * before any request is served.
 *
 * Later failures show up in SQLite's log or as a rollback, in any caller. After one, a write is
 * tried now and then until it works again (store_look()).
 */
#include "store/store.h"

#include "base/log.h"
#include "store/check.h"
#include "store/migrate.h"
#include "store/statement.h"
#include "store/table.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

enum statement {
	PUT_PROJECT,
	PUT_KEY,
	PUT_SANDBOX,
	PUT_EXEC,
	PUT_CONTEXT,
	DELETE_SANDBOX,
	DELETE_EXEC,
	DELETE_CONTEXT,
	EACH_PROJECT,
	EACH_KEY,
	EACH_SANDBOX,
	EACH_EXEC,
	EACH_CONTEXT,
	STATEMENT_COUNT
};

/* Upserts rather than REPLACE, which would delete the old row and, by cascade, a sandbox's
 * execs. */
static const char *const statements[] = {
	[PUT_PROJECT] = "INSERT INTO projects (id, name, created_us) VALUES (?1, ?2, ?3) "
			"ON CONFLICT (id) DO UPDATE SET name = ?2",
	[PUT_KEY] = "INSERT INTO keys (id, project_id, name, hash, scope, created_us, revoked_us, "
		    "expires_us, used_us, person) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
		    "coalesce(?10, '')) "
		    "ON CONFLICT (id) DO UPDATE SET name = ?3, scope = ?5, revoked_us = ?7",
	[PUT_SANDBOX] =
		"INSERT INTO sandboxes (id, project_id, name, state, created_us, ended_us, json) "
		"VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) "
		"ON CONFLICT (id) DO UPDATE SET name = ?3, state = ?4, ended_us = ?6, json = ?7",
	[PUT_EXEC] = "INSERT INTO execs (id, sandbox_id, channel, state, created_us, json) "
		     "VALUES (?1, ?2, ?3, ?4, ?5, ?6) "
		     "ON CONFLICT (id) DO UPDATE SET state = ?4, json = ?6",
	[PUT_CONTEXT] = "INSERT INTO contexts (id, sandbox_id, channel, created_us, json) "
			"VALUES (?1, ?2, ?3, ?4, ?5) "
			"ON CONFLICT (id) DO UPDATE SET channel = ?3, json = ?5",
	[DELETE_SANDBOX] = "DELETE FROM sandboxes WHERE id = ?1",
	[DELETE_EXEC] = "DELETE FROM execs WHERE id = ?1",
	[DELETE_CONTEXT] = "DELETE FROM contexts WHERE id = ?1",
	[EACH_PROJECT] = "SELECT id, name, created_us FROM projects ORDER BY created_us, id",
	[EACH_KEY] = "SELECT id, project_id, name, hash, scope, created_us, revoked_us, "
		     "expires_us, used_us, person FROM keys "
		     "ORDER BY created_us, id",
	[EACH_SANDBOX] = "SELECT id, project_id, name, state, created_us, ended_us, json "
			 "FROM sandboxes ORDER BY created_us, rowid",
	[EACH_EXEC] = "SELECT id, sandbox_id, channel, state, created_us, json FROM execs "
		      "ORDER BY created_us, rowid",
	[EACH_CONTEXT] = "SELECT id, sandbox_id, channel, created_us, json FROM contexts "
			 "ORDER BY created_us, rowid",
};
static_assert(ARRAY_SIZE(statements) == STATEMENT_COUNT, "a statement has no text");

static const struct column project_columns[] = {
	COLUMN(struct project_row, id),
	COLUMN(struct project_row, name),
	COLUMN(struct project_row, created_us),
};

static const struct column key_columns[] = {
	COLUMN(struct key_row, id),         COLUMN(struct key_row, project_id),
	COLUMN(struct key_row, name),       COLUMN(struct key_row, hash),
	COLUMN(struct key_row, scope),      COLUMN(struct key_row, created_us),
	COLUMN(struct key_row, revoked_us), COLUMN(struct key_row, expires_us),
	COLUMN(struct key_row, used_us),    COLUMN(struct key_row, person),
};

static const struct column sandbox_columns[] = {
	COLUMN(struct sandbox_row, id),         COLUMN(struct sandbox_row, project_id),
	COLUMN(struct sandbox_row, name),       COLUMN(struct sandbox_row, state),
	COLUMN(struct sandbox_row, created_us), COLUMN(struct sandbox_row, ended_us),
	COLUMN(struct sandbox_row, json),
};

static const struct column exec_columns[] = {
	COLUMN(struct exec_row, id),         COLUMN(struct exec_row, sandbox_id),
	COLUMN(struct exec_row, channel),    COLUMN(struct exec_row, state),
	COLUMN(struct exec_row, created_us), COLUMN(struct exec_row, json),
};

static const struct column context_columns[] = {
	COLUMN(struct context_row, id),      COLUMN(struct context_row, sandbox_id),
	COLUMN(struct context_row, channel), COLUMN(struct context_row, created_us),
	COLUMN(struct context_row, json),
};

struct store {
	sqlite3 *db;
	uint64_t number;
	uint64_t durable; /* changes that outlive a power cut, so far */
	bool is_new;
	bool has_rolled_back; /* since the last look */
	bool wants_erasing;
	sqlite3_stmt *prepared[STATEMENT_COUNT];
};

DEFINE_FREEP(struct store, store_close)

/* SQLite has one log for the process, so this is global too. */
static struct trouble {
	int code; /* of SQLite; 0: none */
	char message[200];
} trouble;

static bool is_trouble(int code)
{
	switch (code & 0xff) {
	case SQLITE_FULL:
	case SQLITE_IOERR:
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
		return true;
	default:
		return false;
	}
}

static void note_trouble(int code, const char *message)
{
	if (trouble.code == 0)
		log_error("store.failing", "code=%d error='%s'", code, message);
	trouble.code = code;
	(void)snprintf(trouble.message, sizeof(trouble.message), "%s (%s)", sqlite3_errstr(code),
	               message);
}

static void on_sqlite_log(void *arg, int code, const char *message)
{
	(void)arg;
	if (is_trouble(code))
		note_trouble(code, message);
}

/* A failed commit, say on a full disk, is not reported in SQLite's log, but it is rolled back. */
static void on_rollback(void *arg)
{
	struct store *st = arg;

	st->has_rolled_back = true;
}

/* Made here with mode 0600, which the WAL then takes too, so that nobody else can read either. */
static int create_file(const char *path, struct err *err)
{
	auto_fd int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the database '%s'", path);
	return 0;
}

static int read_number(struct store *st, const char *path, struct err *err)
{
	sqlite3_stmt *stmt = NULL;

	if (sqlite3_prepare_v2(st->db, "SELECT number FROM identity", -1, &stmt, NULL) ==
	            SQLITE_OK &&
	    sqlite3_step(stmt) == SQLITE_ROW)
		st->number = (uint64_t)sqlite3_column_int64(stmt, 0);
	(void)sqlite3_finalize(stmt);
	return st->number == 0 ? check_damaged(path, "it has no number", err) : 0;
}

static int prepare_all(struct store *st, const char *path, struct err *err)
{
	for (size_t i = 0; i < STATEMENT_COUNT; i++)
		if (sqlite3_prepare_v3(st->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
		                       &st->prepared[i], NULL) != SQLITE_OK)
			return check_damaged(path, sqlite3_errmsg(st->db), err);
	return 0;
}

int store_open(const char *path, struct store **ret, struct err *err)
{
	auto_call(store_closep) struct store *st = xnew0(struct store);
	bool is_new = access(path, F_OK) < 0;
	int r = check_wal(path, err);

	if (r == 0)
		r = create_file(path, err);
	if (r < 0)
		return r;
	trouble = (struct trouble){0};
	(void)sqlite3_config(SQLITE_CONFIG_LOG, on_sqlite_log, NULL); /* of the process: once */
	if (sqlite3_open_v2(path, &st->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
	    SQLITE_OK)
		return check_failed(st->db, path, err);
	(void)sqlite3_db_config(st->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	if (sqlite3_exec(st->db,
	                 "PRAGMA locking_mode = EXCLUSIVE;"
	                 "PRAGMA journal_mode = WAL;"
	                 "PRAGMA synchronous = NORMAL;"
	                 "PRAGMA foreign_keys = ON;"
	                 "PRAGMA trusted_schema = OFF",
	                 NULL, NULL, NULL) != SQLITE_OK)
		return check_failed(st->db, path, err);
	r = check_tables(st->db, path, err);
	if (r < 0)
		return r;
	r = migrate(st->db, path, err);
	if (r == 0)
		r = read_number(st, path, err);
	if (r < 0)
		return r;
	r = prepare_all(st, path, err);
	if (r == 0)
		r = check_write(st->db, path, err);
	if (r < 0)
		return r;
	(void)sqlite3_rollback_hook(st->db, on_rollback, st);
	st->has_rolled_back = true; /* so the first look tries a write */
	st->is_new = is_new;
	*ret = take_ptr(st);
	return 0;
}

void store_wants_erasing(struct store *st)
{
	st->wants_erasing = true;
}

void store_erase(struct store *st)
{
	if (!st->wants_erasing)
		return;
	st->wants_erasing = false;
	if (sqlite3_exec(st->db, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL) ==
	    SQLITE_OK)
		log_info("store.erased", "message='the old text of what is sealed now is gone'");
	else
		log_error("store.not_erased",
		          "error='%s' message='the old text of what is sealed now may still be in "
		          "free parts of the database'",
		          sqlite3_errmsg(st->db));
}

bool store_is_failing(const struct store *st, char *ret_message, size_t size)
{
	(void)st;
	(void)snprintf(ret_message, size, "%s", trouble.message);
	return trouble.code != 0;
}

void store_look(struct store *st, bool is_asked)
{
	int code;

	if (!is_asked && trouble.code == 0 && !st->has_rolled_back)
		return;
	if (!sqlite3_get_autocommit(st->db))
		return; /* a transaction is open: its commit will tell as much */
	code = sqlite3_exec(st->db, CHECK_WRITE, NULL, NULL, NULL);
	if (code != SQLITE_OK) {
		note_trouble(code, sqlite3_errmsg(st->db));
	} else if ((trouble.code != 0 || st->has_rolled_back) &&
	           !check_room(sqlite3_db_filename(st->db, "main"))) {
		note_trouble(SQLITE_FULL, "there is no room beside it");
	} else {
		trouble.code = 0;
	}
	st->has_rolled_back = false;
}

uint64_t store_bytes(const struct store *st)
{
	const char *path = sqlite3_db_filename(st->db, "main");
	auto_free char *wal = xasprintf("%s-wal", path);
	struct stat main_file = {0}, wal_file = {0};

	(void)stat(path, &main_file);
	(void)stat(wal, &wal_file);
	return (uint64_t)(main_file.st_size + wal_file.st_size);
}

sqlite3 *store_db(const struct store *st)
{
	return st->db;
}

void store_count_durable(struct store *st)
{
	st->durable++;
}

uint64_t store_durable(const struct store *st)
{
	return st->durable;
}

int store_open_log(const struct store *st, int *ret_fd)
{
	auto_free char *path = xasprintf("%s-wal", sqlite3_db_filename(st->db, "main"));
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

void store_close(struct store *st)
{
	if (!st)
		return;
	for (size_t i = 0; i < STATEMENT_COUNT; i++)
		(void)sqlite3_finalize(st->prepared[i]);
	(void)sqlite3_close(st->db);
	free(st);
}

bool store_is_new(const struct store *st)
{
	return st->is_new;
}

uint64_t store_number(const struct store *st)
{
	return st->number;
}

static int run(struct store *st, enum statement which, const char *id, struct err *err)
{
	sqlite3_stmt *stmt = st->prepared[which];
	int code = sqlite3_step(stmt);
	int r = 0;

	if (code != SQLITE_DONE)
		r = err_set(err, code == SQLITE_FULL ? ERR_HOST_DISK_FULL : ERR_INTERNAL,
		            code == SQLITE_FULL ? ENOSPC : EIO,
		            "the host's database cannot record '%s' (%s)", id,
		            sqlite3_errmsg(st->db));
	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return r;
}

int store_put_project(struct store *st, const struct project_row *row, struct err *err)
{
	bind_row(st->prepared[PUT_PROJECT], project_columns, ARRAY_SIZE(project_columns), row);
	store_count_durable(st);
	return run(st, PUT_PROJECT, row->id, err);
}

int store_put_key(struct store *st, const struct key_row *row, struct err *err)
{
	bind_row(st->prepared[PUT_KEY], key_columns, ARRAY_SIZE(key_columns), row);
	store_count_durable(st);
	return run(st, PUT_KEY, row->id, err);
}

int store_put_sandbox(struct store *st, const struct sandbox_row *row, struct err *err)
{
	bind_row(st->prepared[PUT_SANDBOX], sandbox_columns, ARRAY_SIZE(sandbox_columns), row);
	if (row->is_durable)
		store_count_durable(st);
	return run(st, PUT_SANDBOX, row->id, err);
}

int store_put_exec(struct store *st, const struct exec_row *row, struct err *err)
{
	bind_row(st->prepared[PUT_EXEC], exec_columns, ARRAY_SIZE(exec_columns), row);
	return run(st, PUT_EXEC, row->id, err);
}

int store_put_context(struct store *st, const struct context_row *row, struct err *err)
{
	bind_row(st->prepared[PUT_CONTEXT], context_columns, ARRAY_SIZE(context_columns), row);
	return run(st, PUT_CONTEXT, row->id, err);
}

int store_delete_sandbox(struct store *st, const char *id, struct err *err)
{
	bind_text(st->prepared[DELETE_SANDBOX], 1, id);
	return run(st, DELETE_SANDBOX, id, err);
}

static int mark(struct store *st, const char *sql, struct err *err)
{
	if (sqlite3_exec(st->db, sql, NULL, NULL, NULL) == SQLITE_OK)
		return 0;
	return statement_failed(st->db, sqlite3_errcode(st->db), "execs", err);
}

/* A savepoint is a transaction of its own, or a part of the one that is open. */
int store_delete_execs(struct store *st, const char *const *ids, size_t n, struct err *err)
{
	const bool is_whole = sqlite3_get_autocommit(st->db) != 0;
	int r = mark(st, "SAVEPOINT execs", err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++) {
		bind_text(st->prepared[DELETE_EXEC], 1, ids[i]);
		r = run(st, DELETE_EXEC, ids[i], err);
	}
	if (r == 0)
		r = mark(st, "RELEASE execs", err);
	if (r < 0)
		statement_roll_back(st->db, "ROLLBACK TO execs; RELEASE execs", is_whole);
	return r;
}

int store_delete_context(struct store *st, const char *id, struct err *err)
{
	bind_text(st->prepared[DELETE_CONTEXT], 1, id);
	return run(st, DELETE_CONTEXT, id, err);
}

/* Returns SQLITE_ROW for a row. r is the callback's result for the row before; < 0 ends the
 * walk. */
static int next(struct store *st, enum statement which, const struct column *columns, size_t n,
                void *ret, int r)
{
	int code = r < 0 ? SQLITE_DONE : sqlite3_step(st->prepared[which]);

	if (code == SQLITE_ROW)
		read_row(st->prepared[which], columns, n, ret);
	return code;
}

static int end_walk(struct store *st, enum statement which, int code, int r, struct err *err)
{
	if (r >= 0 && code != SQLITE_DONE)
		r = err_set(err, ERR_INTERNAL, EIO, "the host's database cannot be read (%s)",
		            sqlite3_errmsg(st->db));
	(void)sqlite3_reset(st->prepared[which]);
	return MIN(r, 0);
}

int store_each_project(struct store *st, int (*fn)(const struct project_row *row, void *arg),
                       void *arg, struct err *err)
{
	struct project_row row = {0};
	int code, r = 0;

	while ((code = next(st, EACH_PROJECT, project_columns, ARRAY_SIZE(project_columns), &row,
	                    r)) == SQLITE_ROW)
		r = fn(&row, arg);
	return end_walk(st, EACH_PROJECT, code, r, err);
}

int store_each_key(struct store *st, int (*fn)(const struct key_row *row, void *arg), void *arg,
                   struct err *err)
{
	struct key_row row = {0};
	int code, r = 0;

	while ((code = next(st, EACH_KEY, key_columns, ARRAY_SIZE(key_columns), &row, r)) ==
	       SQLITE_ROW)
		r = fn(&row, arg);
	return end_walk(st, EACH_KEY, code, r, err);
}

int store_each_sandbox(struct store *st, int (*fn)(const struct sandbox_row *row, void *arg),
                       void *arg, struct err *err)
{
	struct sandbox_row row = {0};
	int code, r = 0;

	while ((code = next(st, EACH_SANDBOX, sandbox_columns, ARRAY_SIZE(sandbox_columns), &row,
	                    r)) == SQLITE_ROW)
		r = fn(&row, arg);
	return end_walk(st, EACH_SANDBOX, code, r, err);
}

int store_each_exec(struct store *st, int (*fn)(const struct exec_row *row, void *arg), void *arg,
                    struct err *err)
{
	struct exec_row row = {0};
	int code, r = 0;

	while ((code = next(st, EACH_EXEC, exec_columns, ARRAY_SIZE(exec_columns), &row, r)) ==
	       SQLITE_ROW)
		r = fn(&row, arg);
	return end_walk(st, EACH_EXEC, code, r, err);
}

int store_each_context(struct store *st, int (*fn)(const struct context_row *row, void *arg),
                       void *arg, struct err *err)
{
	struct context_row row = {0};
	int code, r = 0;

	while ((code = next(st, EACH_CONTEXT, context_columns, ARRAY_SIZE(context_columns), &row,
	                    r)) == SQLITE_ROW)
		r = fn(&row, arg);
	return end_walk(st, EACH_CONTEXT, code, r, err);
}
