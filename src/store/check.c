// SPDX-License-Identifier: Apache-2.0
#include "store/check.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CHECK_US       (3 * SECOND_US) /* at a start: checks about 1 GiB from the page cache */
#define CHECK_EVERY    10000           /* instructions between two looks at the clock */
#define WAL_HEAD_SIZE  32
#define WAL_MAGIC      0x377f0682U /* or one more: its checksums are big-endian */
#define WAL_VERSION    3007000U
#define ROOM_BYTES     ((size_t)256 * 1024)
#define TABLES_MAX     128
#define TABLE_NAME_MAX 64

int check_damaged(const char *path, const char *what, struct err *err)
{
	(void)err_set(err, ERR_INTERNAL, 0, "the database '%s' is damaged: %s", path, what);
	return err_hint(err, "keep a copy of it, then restore it from a backup, or move it away to "
	                     "start with an empty one");
}

int check_failed(sqlite3 *db, const char *path, struct err *err)
{
	int code = sqlite3_errcode(db);

	if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
		return err_set(err, ERR_UNAVAILABLE, EBUSY,
		               "the database '%s' is in use by another process", path);
	if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
		return check_damaged(path, sqlite3_errmsg(db), err);
	return err_set(err, ERR_INTERNAL, 0, "cannot use the database '%s': %s", path,
	               sqlite3_errmsg(db));
}

static uint32_t read_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t read_le32(const uint8_t *p)
{
	return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* The checksum of a WAL's head, over its first 24 bytes (https://sqlite.org/fileformat2.html). */
static bool is_wal_head(const uint8_t head[WAL_HEAD_SIZE])
{
	uint32_t magic = read_be32(head), s0 = 0, s1 = 0;
	uint32_t (*read32)(const uint8_t *p) = magic == WAL_MAGIC ? read_le32 : read_be32;

	if ((magic != WAL_MAGIC && magic != (WAL_MAGIC | 1)) || read_be32(head + 4) != WAL_VERSION)
		return false;
	for (size_t i = 0; i < 24; i += 8) {
		s0 += read32(head + i) + s1;
		s1 += read32(head + i + 4) + s0;
	}
	return s0 == read_be32(head + 24) && s1 == read_be32(head + 28);
}

int check_wal(const char *path, struct err *err)
{
	static const uint8_t zeros[WAL_HEAD_SIZE];
	auto_free char *wal = xasprintf("%s-wal", path);
	auto_fd int fd = open(wal, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	uint8_t head[WAL_HEAD_SIZE] = {0};
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0) {
		(void)err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", wal);
		return err_hint(err, "give it the owner and mode of '%s'", path);
	}
	if (st.st_size > 0)
		log_info("store.unclean", "wal_bytes=%" PRIu64, (uint64_t)st.st_size);
	/* A truncated head was still being written, so nothing follows it. */
	if (st.st_size < WAL_HEAD_SIZE || pread(fd, head, sizeof(head), 0) != WAL_HEAD_SIZE ||
	    memcmp(head, zeros, sizeof(head)) == 0 || is_wal_head(head))
		return 0;
	(void)err_set(err, ERR_INTERNAL, 0, "the database's log '%s' is damaged: it has no head",
	              wal);
	return err_hint(err,
	                "keep a copy of it, then restore both '%s' and it from a backup, or "
	                "move it away: what was written in its last minutes is lost then",
	                path);
}

struct tables {
	char names[TABLES_MAX][TABLE_NAME_MAX];
	size_t n;
};

/* The event log, history and usage come last: they are large, and no decision depends on them. */
static int list_tables(sqlite3 *db, struct tables *ret)
{
	sqlite3_stmt *stmt = NULL;
	int code = sqlite3_prepare_v2(
		db,
		"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
		"ORDER BY name LIKE 'event%' OR name LIKE 'history%' OR name LIKE 'usage%', name",
		-1, &stmt, NULL);

	ret->n = 0;
	while (code == SQLITE_OK && ret->n < TABLES_MAX &&
	       (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		(void)snprintf(ret->names[ret->n++], TABLE_NAME_MAX, "%s",
		               (const char *)sqlite3_column_text(stmt, 0));
		code = SQLITE_OK;
	}
	(void)sqlite3_finalize(stmt);
	return code == SQLITE_DONE || ret->n == TABLES_MAX ? 0 : -EIO;
}

static int is_late(void *arg)
{
	return clock_steady_us() > *(const uint64_t *)arg;
}

/* Returns 0 if the table is sound, 1 if there was no time to check it. */
static int check_table(sqlite3 *db, const char *path, const char *name, struct err *err)
{
	char sql[TABLE_NAME_MAX + 64];
	sqlite3_stmt *stmt = NULL;
	const char *answer = NULL;
	int code, r = 0;

	(void)snprintf(sql, sizeof(sql), "PRAGMA quick_check(\"%s\")", name);
	code = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
	if (code == SQLITE_OK)
		code = sqlite3_step(stmt);
	if (code == SQLITE_ROW)
		answer = (const char *)sqlite3_column_text(stmt, 0);
	if (code == SQLITE_INTERRUPT)
		r = 1;
	else if (code != SQLITE_ROW)
		r = check_failed(db, path, err);
	else if (!answer || strcmp(answer, "ok") != 0)
		r = check_damaged(path, answer ? answer : "no answer", err);
	(void)sqlite3_finalize(stmt);
	return r;
}

int check_tables(sqlite3 *db, const char *path, struct err *err)
{
	uint64_t until_us = clock_steady_us() + CHECK_US;
	struct tables *tables = xnew0(struct tables);
	int r = list_tables(db, tables);

	if (r < 0)
		r = check_failed(db, path, err);
	sqlite3_progress_handler(db, CHECK_EVERY, is_late, &until_us);
	for (size_t i = 0; r == 0 && i < tables->n; i++) {
		r = check_table(db, path, tables->names[i], err);
		if (r == 1)
			log_warn("store.not_checked",
			         "table='%s' message='no time, nor for %zu more'", tables->names[i],
			         tables->n - i - 1);
	}
	sqlite3_progress_handler(db, 0, NULL, NULL);
	free(tables);
	return MIN(r, 0);
}

bool check_room(const char *path)
{
	static const char zeros[4096];
	auto_free char *room = xasprintf("%s-room", path);
	auto_fd int fd = open(room, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool has_room = fd >= 0;

	for (size_t n = 0; has_room && n < ROOM_BYTES; n += sizeof(zeros))
		has_room = write(fd, zeros, sizeof(zeros)) == (ssize_t)sizeof(zeros);
	(void)unlink(room);
	return has_room;
}

int check_write(sqlite3 *db, const char *path, struct err *err)
{
	if (sqlite3_exec(db, CHECK_WRITE, NULL, NULL, NULL) == SQLITE_OK)
		return 0;
	if (sqlite3_errcode(db) == SQLITE_FULL)
		return 0; /* running sandboxes still need the daemon, and room may come */
	(void)err_set(err, ERR_INTERNAL, 0, "the database '%s' cannot be written: %s", path,
	              sqlite3_errmsg(db));
	return err_hint(err,
	                "see that its disk has room and is not read-only, and that '%s' and "
	                "'%s-wal' belong to the daemon's user",
	                path, path);
}
