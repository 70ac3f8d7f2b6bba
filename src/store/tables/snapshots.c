// SPDX-License-Identifier: Apache-2.0
#include "store/tables/snapshots.h"

#include "store/table.h"

#define COLUMNS                                                                                    \
	"id, project_id, name, source_id, parent_id, generation, created_us, expires_us, json"

static const struct column columns[] = {
	COLUMN(struct snapshot_row, id),         COLUMN(struct snapshot_row, project_id),
	COLUMN(struct snapshot_row, name),       COLUMN(struct snapshot_row, source_id),
	COLUMN(struct snapshot_row, parent_id),  COLUMN(struct snapshot_row, generation),
	COLUMN(struct snapshot_row, created_us), COLUMN(struct snapshot_row, expires_us),
	COLUMN(struct snapshot_row, json),
};

static const struct table table = {
	.what = "snapshots",
	.put = "INSERT OR REPLACE INTO snapshots (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	.remove = "DELETE FROM snapshots WHERE id = ?1",
	.each = "SELECT " COLUMNS " FROM snapshots ORDER BY created_us, id",
	.columns = columns,
	.n = ARRAY_SIZE(columns),
};

int store_put_snapshot(struct store *st, const struct snapshot_row *row, struct err *err)
{
	return table_put(st, &table, row, err);
}

int store_delete_snapshot(struct store *st, const char *id, struct err *err)
{
	return table_remove(st, &table, id, err);
}

int store_each_snapshot(struct store *st, int (*fn)(const struct snapshot_row *row, void *arg),
                        void *arg, struct err *err)
{
	struct table_walk w = table_walk(st, &table);
	struct snapshot_row row;

	while (table_next(&w, &row))
		w.r = fn(&row, arg);
	return table_end(&w, err);
}
