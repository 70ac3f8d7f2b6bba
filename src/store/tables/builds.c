// SPDX-License-Identifier: Apache-2.0
#include "store/tables/builds.h"

#include "store/table.h"

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

static const struct column columns[] = {
	COLUMN(struct build_row, id),
	COLUMN(struct build_row, project_id),
	COLUMN(struct build_row, json),
	COLUMN(struct build_row, created_us),
};

static const struct column cache_columns[] = {
	COLUMN(struct build_cache_row, key),     COLUMN(struct build_cache_row, image),
	COLUMN(struct build_cache_row, json),    COLUMN(struct build_cache_row, bytes),
	COLUMN(struct build_cache_row, used_us),
};

struct store_builds {
	struct statements all;
	sqlite3_stmt *prepared[STATEMENT_COUNT];
};

DEFINE_FREEP(struct store_builds, store_builds_close)

int store_builds_open(struct store *st, struct store_builds **ret, struct err *err)
{
	auto_call(store_builds_closep) struct store_builds *sb = xnew0(struct store_builds);
	int r;

	sb->all = (struct statements){.db = store_db(st),
	                              .room_for = "builds",
	                              .failure = "builds cannot be recorded",
	                              .prepared = sb->prepared,
	                              .n = STATEMENT_COUNT};
	r = statements_open(&sb->all, statements, err);
	if (r < 0)
		return r;
	*ret = take_ptr(sb);
	return 0;
}

void store_builds_close(struct store_builds *sb)
{
	if (sb)
		statements_close(&sb->all);
	free(sb);
}

int store_builds_put(struct store_builds *sb, const struct build_row *row, struct err *err)
{
	bind_row(sb->prepared[PUT], columns, ARRAY_SIZE(columns), row);
	return statements_run(&sb->all, PUT, err);
}

int store_builds_remove(struct store_builds *sb, const char *id, struct err *err)
{
	bind_text(sb->prepared[REMOVE], 1, id);
	return statements_run(&sb->all, REMOVE, err);
}

int store_builds_each(struct store_builds *sb, int (*fn)(const struct build_row *row, void *arg),
                      void *arg, struct err *err)
{
	struct build_row row;
	int code = SQLITE_DONE, r = 0;

	while (r >= 0 && (code = sqlite3_step(sb->prepared[EACH])) == SQLITE_ROW) {
		read_row(sb->prepared[EACH], columns, ARRAY_SIZE(columns), &row);
		r = fn(&row, arg);
	}
	return statements_end(&sb->all, EACH, code, MIN(r, 0), err);
}

int store_build_cache_put(struct store_builds *sb, const struct build_cache_row *row,
                          struct err *err)
{
	bind_row(sb->prepared[CACHE_PUT], cache_columns, ARRAY_SIZE(cache_columns), row);
	return statements_run(&sb->all, CACHE_PUT, err);
}

int store_build_cache_remove(struct store_builds *sb, const char *key, struct err *err)
{
	bind_text(sb->prepared[CACHE_REMOVE], 1, key);
	return statements_run(&sb->all, CACHE_REMOVE, err);
}

int store_build_cache_each(struct store_builds *sb,
                           int (*fn)(const struct build_cache_row *row, void *arg), void *arg,
                           struct err *err)
{
	struct build_cache_row row;
	int code = SQLITE_DONE, r = 0;

	while (r >= 0 && (code = sqlite3_step(sb->prepared[CACHE_EACH])) == SQLITE_ROW) {
		read_row(sb->prepared[CACHE_EACH], cache_columns, ARRAY_SIZE(cache_columns), &row);
		r = fn(&row, arg);
	}
	return statements_end(&sb->all, CACHE_EACH, code, MIN(r, 0), err);
}
