// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the files of this directory share of a store, and nobody else. */
#include "store/store.h"

#include <sqlite3.h>

sqlite3 *store_db(const struct store *st);
/* Called with each change whose answer says that it outlives a power cut: see store_durable(). */
void store_count_durable(struct store *st);
