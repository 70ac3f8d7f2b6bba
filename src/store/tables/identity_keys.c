// SPDX-License-Identifier: Apache-2.0
#include "store/tables/identity_keys.h"

#include "store/table.h"

#define COLUMNS "id, sealed, modulus, created_us, active_us, retired_us"

static const struct column columns[] = {
	COLUMN(struct identity_key_row, id),        COLUMN(struct identity_key_row, sealed),
	COLUMN(struct identity_key_row, modulus),   COLUMN(struct identity_key_row, created_us),
	COLUMN(struct identity_key_row, active_us), COLUMN(struct identity_key_row, retired_us),
};

static const struct table table = {
	.what = "keys of identities",
	.put = "INSERT OR REPLACE INTO identity_keys (" COLUMNS ") VALUES (?, ?, ?, ?, ?, ?)",
	.remove = "DELETE FROM identity_keys WHERE id = ?1",
	.each = "SELECT " COLUMNS " FROM identity_keys ORDER BY created_us, id",
	.columns = columns,
	.n = ARRAY_SIZE(columns),
};

int store_put_identity_key(struct store *st, const struct identity_key_row *row, struct err *err)
{
	return table_put(st, &table, row, err);
}

int store_delete_identity_key(struct store *st, const char *id, struct err *err)
{
	return table_remove(st, &table, id, err);
}

int store_each_identity_key(struct store *st,
                            int (*fn)(const struct identity_key_row *row, void *arg), void *arg,
                            struct err *err)
{
	struct table_walk w = table_walk(st, &table);
	struct identity_key_row row;

	while (table_next(&w, &row))
		w.r = fn(&row, arg);
	return table_end(&w, err);
}
