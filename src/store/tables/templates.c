// SPDX-License-Identifier: Apache-2.0
#include "store/tables/templates.h"

#include "store/table.h"

#define COLUMNS "id, project_id, name, image, bytes, created_us, json"

static const struct column columns[] = {
	COLUMN(struct template_row, id),    COLUMN(struct template_row, project_id),
	COLUMN(struct template_row, name),  COLUMN(struct template_row, image),
	COLUMN(struct template_row, bytes), COLUMN(struct template_row, created_us),
	COLUMN(struct template_row, json),
};

static const struct table table = {
	.what = "templates",
	.put = "INSERT OR REPLACE INTO templates (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?)",
	.remove = "DELETE FROM templates WHERE id = ?1",
	.each = "SELECT " COLUMNS " FROM templates ORDER BY created_us, id",
	.columns = columns,
	.n = ARRAY_SIZE(columns),
};

int store_put_template(struct store *st, const struct template_row *row, struct err *err)
{
	sqlite3 *db = store_db(st);
	int r;

	(void)sqlite3_exec(db, "PRAGMA synchronous = FULL", NULL, NULL, NULL);
	r = table_put(st, &table, row, err);
	(void)sqlite3_exec(db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
	return r;
}

int store_delete_template(struct store *st, const char *id, struct err *err)
{
	return table_remove(st, &table, id, err);
}

int store_each_template(struct store *st, int (*fn)(const struct template_row *row, void *arg),
                        void *arg, struct err *err)
{
	struct table_walk w = table_walk(st, &table);
	struct template_row row;

	while (table_next(&w, &row))
		w.r = fn(&row, arg);
	return table_end(&w, err);
}
