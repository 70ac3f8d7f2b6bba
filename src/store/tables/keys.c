// SPDX-License-Identifier: Apache-2.0
#include "store/tables/keys.h"

#include "store/inside.h"
#include "store/statement.h"

int store_delete_key(struct store *st, const char *id, struct err *err)
{
	sqlite3 *db = store_db(st);
	sqlite3_stmt *stmt = statement_new(db, "DELETE FROM keys WHERE id = ?1");

	bind_text(stmt, 1, id);
	return statement_run(db, stmt, id, err);
}
