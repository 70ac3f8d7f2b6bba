// SPDX-License-Identifier: Apache-2.0
#include "store/tables/keys.h"

#include "store/statement.h"
#include "store/store_private.h"

int store_delete_key(struct store *st, const char *id, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(db, "DELETE FROM keys WHERE id = ?1");

	bind_text(stmt, 1, id);
	return statement_run(db, stmt, id, err);
}

int store_note_key_use(struct store *st, const char *id, uint64_t used_us, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(db, "UPDATE keys SET used_us = ?2 WHERE id = ?1");

	bind_text(stmt, 1, id);
	bind_u64(stmt, 2, used_us);
	return statement_run(db, stmt, id, err);
}

int store_set_person_key(struct store *st, const struct key_row *row, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(db, "UPDATE keys SET name = ?2, scope = ?3, "
	                                       "expires_us = ?4, person = ?5 WHERE id = ?1");

	bind_text(stmt, 1, row->id);
	bind_text(stmt, 2, row->name);
	bind_u64(stmt, 3, row->scope);
	bind_u64(stmt, 4, row->expires_us);
	bind_text(stmt, 5, row->person);
	store_count_durable(st);
	return statement_run(db, stmt, row->id, err);
}

#define QUOTAS_OF_PROJECT                                                                          \
	"DELETE FROM quotas WHERE owner_id = ?1 OR owner_id IN "                                   \
	"(SELECT id FROM keys WHERE project_id = ?1)"

static int delete_rows(sqlite3 *db, const char *project_id, struct err *err)
{
	static const char *const statements[] = {
		(QUOTAS_OF_PROJECT),
		"DELETE FROM hooks WHERE project_id = ?1",
		"DELETE FROM secrets WHERE project_id = ?1",
		"DELETE FROM keys WHERE project_id = ?1",
		"DELETE FROM projects WHERE id = ?1",
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(statements) && r == 0; i++) {
		sqlite3_stmt *stmt = statement_new(db, statements[i]);

		bind_text(stmt, 1, project_id);
		r = statement_run(db, stmt, project_id, err);
	}
	return r;
}

int store_delete_project(struct store *st, const char *id, struct err *err)
{
	sqlite3 *db = store_db(st);
	const bool is_whole = sqlite3_get_autocommit(db) != 0;
	int r = statement_run(db, statement_new(db, "SAVEPOINT project"), id, err);

	if (r < 0)
		return r;
	r = delete_rows(db, id, err);
	store_count_durable(st);
	if (r == 0)
		r = statement_run(db, statement_new(db, "RELEASE project"), id, err);
	if (r < 0)
		statement_roll_back(db, "ROLLBACK TO project; RELEASE project", is_whole);
	return r;
}
