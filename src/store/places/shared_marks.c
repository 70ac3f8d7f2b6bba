// SPDX-License-Identifier: Apache-2.0
#include "store/places/shared_marks.h"

#include "store/table.h"

#define COLUMNS "kind, id, project_id, version, changed_us, is_gone"

static const struct column columns[] = {
	COLUMN(struct shared_mark_row, kind),       COLUMN(struct shared_mark_row, id),
	COLUMN(struct shared_mark_row, project_id), COLUMN(struct shared_mark_row, version),
	COLUMN(struct shared_mark_row, changed_us), COLUMN(struct shared_mark_row, is_gone),
};

static const struct table table = {
	.what = "marks of the cluster's records",
	.put = "INSERT OR REPLACE INTO shared_marks (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?)",
	.remove = "DELETE FROM shared_marks WHERE id = ?1",
	.each = "SELECT " COLUMNS " FROM shared_marks ORDER BY changed_us, id",
	.columns = columns,
	.n = ARRAY_SIZE(columns),
};

int store_put_shared_mark(struct store *st, const struct shared_mark_row *row, struct err *err)
{
	return table_put(st, &table, row, err);
}

int store_delete_shared_mark(struct store *st, const char *id, struct err *err)
{
	return table_remove(st, &table, id, err);
}

int store_each_shared_mark(struct store *st,
                           int (*fn)(const struct shared_mark_row *row, void *arg), void *arg,
                           struct err *err)
{
	struct table_walk w = table_walk(st, &table);
	struct shared_mark_row row;

	while (table_next(&w, &row))
		w.r = fn(&row, arg);
	return table_end(&w, err);
}
