// SPDX-License-Identifier: Apache-2.0
/*
 * Uses SQLite's online backup. Writes by the connection that is copied are made in the copy too, so
 * the backup never has to start again. Nobody uses the copy before it is complete, so it has no
 * journal and no sync. The last change to it is a transaction on its own connection; closing that
 * writes it to the file.
 */
#include "store/copy.h"

#include "store/store_private.h"

#include <fcntl.h>
#include <unistd.h>

#define PAGES_A_STEP 256 /* 1 MiB: a millisecond */

/* Forgets the boot id of running sandboxes, of their meters and of the event chains. */
static const char forget_boot[] =
	"PRAGMA locking_mode = EXCLUSIVE;"
	"BEGIN;"
	"UPDATE sandboxes SET json = json_set(json, '$.boot_id', '') WHERE ended_us = 0;"
	"UPDATE meters SET boot_id = '';"
	"UPDATE event_chains SET boot_id = '' WHERE boot_id IS NOT NULL;"
	"COMMIT";

struct store_copy {
	sqlite3 *db;
	sqlite3_backup *backup;
};

DEFINE_FREEP(struct store_copy, store_copy_free)

static int failed(sqlite3 *db, int code, struct err *err)
{
	bool is_full = code == SQLITE_FULL;

	return err_set(err, is_full ? ERR_DISK_FULL : ERR_INTERNAL, is_full ? ENOSPC : EIO,
	               "cannot copy the host's database (%s)", sqlite3_errmsg(db));
}

static int create_file(const char *path, struct err *err)
{
	auto_fd int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? err_set(err, errno == ENOSPC ? ERR_DISK_FULL : ERR_INTERNAL, errno,
	                        "cannot make a copy of the host's database")
	              : 0;
}

int store_copy_begin(struct store *st, const char *path, struct store_copy **ret, struct err *err)
{
	auto_call(store_copy_freep) struct store_copy *c = xnew0(struct store_copy);
	int r = create_file(path, err);

	if (r < 0)
		return r;
	r = sqlite3_open_v2(path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (r == SQLITE_OK)
		r = sqlite3_exec(c->db, "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF", NULL,
		                 NULL, NULL);
	if (r == SQLITE_OK)
		c->backup = sqlite3_backup_init(c->db, "main", store_db(st), "main");
	if (!c->backup) {
		r = failed(c->db, sqlite3_errcode(c->db), err);
		(void)unlink(path);
		return r;
	}
	*ret = take_ptr(c);
	return 0;
}

static int finish(struct store_copy *c, struct err *err)
{
	int code = sqlite3_backup_finish(take_ptr(c->backup));

	if (code == SQLITE_OK)
		code = sqlite3_exec(c->db, forget_boot, NULL, NULL, NULL);
	if (code != SQLITE_OK)
		return failed(c->db, code, err);
	code = sqlite3_close(c->db);
	c->db = NULL;
	return code == SQLITE_OK ? 0 : err_set(err, ERR_INTERNAL, EIO, "cannot close the copy");
}

int store_copy_step(struct store_copy *c, struct err *err)
{
	int code = sqlite3_backup_step(c->backup, PAGES_A_STEP);

	switch (code) {
	case SQLITE_OK:
	case SQLITE_BUSY:
	case SQLITE_LOCKED: /* a transaction is open: in a later turn */
		return 1;
	case SQLITE_DONE:
		return finish(c, err);
	default:
		return failed(c->db, code, err);
	}
}

void store_copy_free(struct store_copy *c)
{
	if (!c)
		return;
	if (c->backup)
		(void)sqlite3_backup_finish(c->backup);
	(void)sqlite3_close(c->db);
	free(c);
}
