// SPDX-License-Identifier: Apache-2.0
/*
 * steps[n] takes a file from version n to n + 1. Released steps never change: a new change is a new
 * row.
 */
#include "store/migrate.h"

#include "base/log.h"

/* clang-format off */
static const char *const steps[] = {
	store_schema,
	store_schema_usage,
	store_schema_events,
	store_schema_contexts,
	store_schema_hooks,
	store_schema_identity,
	store_schema_once,
	store_schema_templates,
	store_schema_builds,
	store_schema_snapshots,
	store_schema_faces,
	store_schema_logins,
	store_schema_volumes,
	store_schema_key_expiry,
	store_schema_secrets,
	store_schema_key_use,
	store_schema_event_chains,
	store_schema_history,
	store_schema_identity_keys,
	store_schema_people,
	store_schema_audit,
	store_schema_shared_marks,
};
/* clang-format on */

int migrate_newest(void)
{
	return (int)ARRAY_SIZE(steps);
}

static int read_version(sqlite3 *db, int *ret)
{
	sqlite3_stmt *stmt = NULL;
	int r = sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &stmt, NULL);

	if (r == SQLITE_OK)
		r = sqlite3_step(stmt);
	if (r == SQLITE_ROW)
		*ret = sqlite3_column_int(stmt, 0);
	(void)sqlite3_finalize(stmt);
	return r == SQLITE_ROW ? 0 : -EIO;
}

static int run_step(sqlite3 *db, int from)
{
	char version[64];

	(void)snprintf(version, sizeof(version), "PRAGMA user_version = %d", from + 1);
	if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK &&
	    sqlite3_exec(db, steps[from], NULL, NULL, NULL) == SQLITE_OK &&
	    sqlite3_exec(db, version, NULL, NULL, NULL) == SQLITE_OK &&
	    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
		return 0;
	return -EIO;
}

int migrate(sqlite3 *db, const char *path, struct err *err)
{
	int version = 0;

	if (read_version(db, &version) < 0)
		return err_set(err, ERR_INTERNAL, 0, "cannot read the version of '%s': %s", path,
		               sqlite3_errmsg(db));
	if (version < 0 || (size_t)version > ARRAY_SIZE(steps)) {
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "'%s' has schema version %d, this cloche knows up to %zu", path,
		              version, ARRAY_SIZE(steps));
		return err_hint(err, "start the newer cloche that wrote it, or use another --data");
	}
	for (; (size_t)version < ARRAY_SIZE(steps); version++) {
		if (run_step(db, version) < 0) {
			(void)err_set(err, ERR_INTERNAL, 0,
			              "cannot bring '%s' from schema version %d to %d: %s", path,
			              version, version + 1, sqlite3_errmsg(db));
			(void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
			return -EINVAL;
		}
		log_debug("store.migrated", "to=%d", version + 1);
	}
	return 0;
}
