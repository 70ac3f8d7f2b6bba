// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Deletes rows of keys and projects, and notes the use of keys. All other functions for them are in
 * store.h. */
#include "store/store.h"

must_check int store_delete_key(struct store *st, const char *id, struct err *err);
/* Not durable: a power cut may lose it. */
must_check int store_note_key_use(struct store *st, const char *id, uint64_t used_us,
                                  struct err *err);
/* Of a key that stands for a person: its name, scope and end, and who the person is. */
must_check int store_set_person_key(struct store *st, const struct key_row *row, struct err *err);
/* With its keys, webhooks and quotas: all of it or nothing. */
must_check int store_delete_project(struct store *st, const char *id, struct err *err);
