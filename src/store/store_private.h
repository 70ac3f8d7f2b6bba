// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Parts of a store that are private to the files of this directory. */
#include "store/store.h"

#include <sqlite3.h>

sqlite3 *store_db(const struct store *st);
/* Called for each change that must survive a power cut before it is acknowledged: see
 * store_durable(). */
void store_count_durable(struct store *st);
