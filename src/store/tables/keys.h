// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Deletes rows of keys and projects. All other functions for them are in store.h. */
#include "store/store.h"

must_check int store_delete_key(struct store *st, const char *id, struct err *err);
/* With its keys, webhooks and quotas: all of it or nothing. */
must_check int store_delete_project(struct store *st, const char *id, struct err *err);
