// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Keys that are forgotten: one that was revoked long ago. All else of keys is in store.h. */
#include "store/store.h"

must_check int store_delete_key(struct store *st, const char *id, struct err *err);
