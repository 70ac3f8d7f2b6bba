// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Migrates a database file to the schema of this program. Each step is a transaction, and PRAGMA
 * user_version counts them. A file from a newer program is refused and not changed.
 */
#include "base/err.h"

#include <sqlite3.h>

/* The steps, each a file beside this one. */
extern const char store_schema[];
extern const char store_schema_usage[];
extern const char store_schema_events[];
extern const char store_schema_hooks[];
extern const char store_schema_once[];
extern const char store_schema_contexts[];
extern const char store_schema_identity[];
extern const char store_schema_templates[];
extern const char store_schema_builds[];
extern const char store_schema_snapshots[];
extern const char store_schema_faces[];
extern const char store_schema_logins[];
extern const char store_schema_volumes[];
extern const char store_schema_key_expiry[];
extern const char store_schema_secrets[];
extern const char store_schema_key_use[];
extern const char store_schema_event_chains[];
extern const char store_schema_history[];
extern const char store_schema_identity_keys[];
extern const char store_schema_people[];
extern const char store_schema_audit[], store_schema_shared_marks[];

int migrate_newest(void); /* the version that it brings a file to */
must_check int migrate(sqlite3 *db, const char *path, struct err *err);
