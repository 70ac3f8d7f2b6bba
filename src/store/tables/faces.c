// SPDX-License-Identifier: Apache-2.0
#include "store/tables/faces.h"

#include "store/table.h"

#define COLUMNS "id, kind, created_us, json"

static const struct column columns[] = {
	COLUMN(struct face_row, id),
	COLUMN(struct face_row, kind),
	COLUMN(struct face_row, created_us),
	COLUMN(struct face_row, json),
};

static const struct table table = {
	.what = "a face",
	.put = "INSERT OR REPLACE INTO faces (" COLUMNS ") VALUES (?, ?, ?, ?)",
	.remove = "DELETE FROM faces WHERE id = ?1",
	.each = "SELECT " COLUMNS " FROM faces WHERE kind = ?1 ORDER BY created_us, id",
	.columns = columns,
	.n = ARRAY_SIZE(columns),
};

int store_put_face(struct store *st, const struct face_row *row, struct err *err)
{
	return table_put(st, &table, row, err);
}

int store_delete_face(struct store *st, const char *id, struct err *err)
{
	return table_remove(st, &table, id, err);
}

int store_each_face(struct store *st, const char *kind,
                    int (*fn)(const struct face_row *row, void *arg), void *arg, struct err *err)
{
	struct table_walk w = table_walk(st, &table);
	struct face_row row;

	bind_text(w.stmt, 1, kind);
	while (table_next(&w, &row))
		w.r = fn(&row, arg);
	return table_end(&w, err);
}
