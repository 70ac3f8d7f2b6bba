// SPDX-License-Identifier: Apache-2.0
#include "store/tables/volumes.h"

#include "store/table.h"

#define COLUMNS "id, project_id, key_id, name, bytes, has_one_writer, created_us, notes"

static const struct column columns[] = {
	COLUMN(struct volume_row, id),         COLUMN(struct volume_row, project_id),
	COLUMN(struct volume_row, key_id),     COLUMN(struct volume_row, name),
	COLUMN(struct volume_row, bytes),      COLUMN(struct volume_row, has_one_writer),
	COLUMN(struct volume_row, created_us), COLUMN(struct volume_row, notes),
};

static const struct table table = {
	.what = "a volume",
	.put = "INSERT OR REPLACE INTO volumes (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
	.remove = "DELETE FROM volumes WHERE id = ?1",
	.each = "SELECT " COLUMNS " FROM volumes ORDER BY created_us, id",
	.columns = columns,
	.n = ARRAY_SIZE(columns),
};

int store_put_volume(struct store *st, const struct volume_row *row, struct err *err)
{
	return table_put(st, &table, row, err);
}

int store_delete_volume(struct store *st, const char *id, struct err *err)
{
	return table_remove(st, &table, id, err);
}

int store_each_volume(struct store *st, int (*fn)(const struct volume_row *row, void *arg),
                      void *arg, struct err *err)
{
	struct table_walk w = table_walk(st, &table);
	struct volume_row row;

	while (table_next(&w, &row))
		w.r = fn(&row, arg);
	return table_end(&w, err);
}
