// SPDX-License-Identifier: Apache-2.0
#include "store/tables/builds.h"

#include "store/inside.h"

#include <assert.h>

enum statement { PUT, REMOVE, EACH, CACHE_PUT, CACHE_REMOVE, CACHE_EACH, STATEMENT_COUNT };

static const char *const statements[] = {
	[PUT] = "INSERT OR REPLACE INTO builds (id, project_id, json, created_us) "
		"VALUES (?1, ?2, ?3, ?4)",
	[REMOVE] = "DELETE FROM builds WHERE id = ?1",
	[EACH] = "SELECT id, project_id, json, created_us FROM builds ORDER BY created_us, id",
	[CACHE_PUT] = "INSERT OR REPLACE INTO build_cache (key, image, json, bytes, used_us) "
		      "VALUES (?1, ?2, ?3, ?4, ?5)",
	[CACHE_REMOVE] = "DELETE FROM build_cache WHERE key = ?1",
	[CACHE_EACH] = "SELECT key, image, json, bytes, used_us FROM build_cache ORDER BY used_us",
};
static_assert(ARRAY_SIZE(statements) == STATEMENT_COUNT, "a statement has no text");

struct store_builds {
	sqlite3 *db;
	sqlite3_stmt *prepared[STATEMENT_COUNT];
};

DEFINE_FREEP(struct store_builds, store_builds_close)

static int failed(const struct store_builds *sb, int code, struct err *err)
{
	if (code == SQLITE_FULL)
		return err_set(err, ERR_HOST_DISK_FULL, ENOSPC,
		               "the host's disk has no room for builds");
	return err_set(err, ERR_INTERNAL, EIO, "builds cannot be recorded (%s)",
	               sqlite3_errmsg(sb->db));
}

int store_builds_open(struct store *st, struct store_builds **ret, struct err *err)
{
	auto_call(store_builds_closep) struct store_builds *sb = xnew0(struct store_builds);

	sb->db = store_db(st);
	for (size_t i = 0; i < STATEMENT_COUNT; i++) {
		int code = sqlite3_prepare_v3(sb->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
		                              &sb->prepared[i], NULL);

		if (code != SQLITE_OK)
			return failed(sb, code, err);
	}
	*ret = take_ptr(sb);
	return 0;
}

void store_builds_close(struct store_builds *sb)
{
	if (!sb)
		return;
	for (size_t i = 0; i < STATEMENT_COUNT; i++)
		(void)sqlite3_finalize(sb->prepared[i]);
	free(sb);
}

static int run(struct store_builds *sb, enum statement which, struct err *err)
{
	sqlite3_stmt *stmt = sb->prepared[which];
	int code = sqlite3_step(stmt);
	int r = code == SQLITE_DONE ? 0 : failed(sb, code, err);

	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return r;
}

static void bind_texts(sqlite3_stmt *stmt, const char *a, const char *b, const char *c)
{
	(void)sqlite3_bind_text(stmt, 1, a, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(stmt, 2, b, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(stmt, 3, c, -1, SQLITE_STATIC);
}

static const char *text(sqlite3_stmt *stmt, int column)
{
	return (const char *)sqlite3_column_text(stmt, column);
}

int store_builds_put(struct store_builds *sb, const struct build_row *row, struct err *err)
{
	sqlite3_stmt *stmt = sb->prepared[PUT];

	bind_texts(stmt, row->id, row->project_id, row->json);
	(void)sqlite3_bind_int64(stmt, 4, (sqlite3_int64)row->created_us);
	return run(sb, PUT, err);
}

static int remove_row(struct store_builds *sb, enum statement which, const char *name,
                      struct err *err)
{
	(void)sqlite3_bind_text(sb->prepared[which], 1, name, -1, SQLITE_STATIC);
	return run(sb, which, err);
}

int store_builds_remove(struct store_builds *sb, const char *id, struct err *err)
{
	return remove_row(sb, REMOVE, id, err);
}

int store_builds_each(struct store_builds *sb, int (*fn)(const struct build_row *row, void *arg),
                      void *arg, struct err *err)
{
	sqlite3_stmt *stmt = sb->prepared[EACH];
	int code, r = 0;

	while (r >= 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		const struct build_row row = {
			.id = text(stmt, 0),
			.project_id = text(stmt, 1),
			.json = text(stmt, 2),
			.created_us = (uint64_t)sqlite3_column_int64(stmt, 3),
		};

		r = fn(&row, arg);
	}
	if (r >= 0 && code != SQLITE_DONE)
		r = failed(sb, code, err);
	(void)sqlite3_reset(stmt);
	return MIN(r, 0);
}

int store_build_cache_put(struct store_builds *sb, const struct build_cache_row *row,
                          struct err *err)
{
	sqlite3_stmt *stmt = sb->prepared[CACHE_PUT];

	bind_texts(stmt, row->key, row->image, row->json);
	(void)sqlite3_bind_int64(stmt, 4, (sqlite3_int64)row->bytes);
	(void)sqlite3_bind_int64(stmt, 5, (sqlite3_int64)row->used_us);
	return run(sb, CACHE_PUT, err);
}

int store_build_cache_remove(struct store_builds *sb, const char *key, struct err *err)
{
	return remove_row(sb, CACHE_REMOVE, key, err);
}

int store_build_cache_each(struct store_builds *sb,
                           int (*fn)(const struct build_cache_row *row, void *arg), void *arg,
                           struct err *err)
{
	sqlite3_stmt *stmt = sb->prepared[CACHE_EACH];
	int code, r = 0;

	while (r >= 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		const struct build_cache_row row = {
			.key = text(stmt, 0),
			.image = text(stmt, 1),
			.json = text(stmt, 2),
			.bytes = (uint64_t)sqlite3_column_int64(stmt, 3),
			.used_us = (uint64_t)sqlite3_column_int64(stmt, 4),
		};

		r = fn(&row, arg);
	}
	if (r >= 0 && code != SQLITE_DONE)
		r = failed(sb, code, err);
	(void)sqlite3_reset(stmt);
	return MIN(r, 0);
}
