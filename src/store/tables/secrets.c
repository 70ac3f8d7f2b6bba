// SPDX-License-Identifier: Apache-2.0
#include "store/tables/secrets.h"

#include "store/table.h"

#define COLUMNS                                                                                    \
	"id, project_id, name, hosts, version, key_id, wrapped, sealed, created_us, changed_us"

static const struct column columns[] = {
	COLUMN(struct secret_row, id),         COLUMN(struct secret_row, project_id),
	COLUMN(struct secret_row, name),       COLUMN(struct secret_row, hosts),
	COLUMN(struct secret_row, version),    COLUMN(struct secret_row, key_id),
	COLUMN(struct secret_row, wrapped),    COLUMN(struct secret_row, sealed),
	COLUMN(struct secret_row, created_us), COLUMN(struct secret_row, changed_us),
};

static const struct table table = {
	.what = "secrets",
	.put = "INSERT OR REPLACE INTO secrets (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	.remove = "DELETE FROM secrets WHERE id = ?1",
	.each = "SELECT " COLUMNS " FROM secrets ORDER BY name, id",
	.columns = columns,
	.n = ARRAY_SIZE(columns),
};

int store_put_secret(struct store *st, const struct secret_row *row, struct err *err)
{
	return table_put(st, &table, row, err);
}

int store_delete_secret(struct store *st, const char *id, struct err *err)
{
	return table_remove(st, &table, id, err);
}

int store_each_secret(struct store *st, int (*fn)(const struct secret_row *row, void *arg),
                      void *arg, struct err *err)
{
	struct table_walk w = table_walk(st, &table);
	struct secret_row row;

	while (table_next(&w, &row))
		w.r = fn(&row, arg);
	return table_end(&w, err);
}
