// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Deletes the rows of keys that were revoked long ago. All other functions for keys are in
 * store.h. */
#include "store/store.h"

must_check int store_delete_key(struct store *st, const char *id, struct err *err);
