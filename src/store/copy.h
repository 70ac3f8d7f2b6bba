// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Copies the database to another file while it is in use: a few pages per call, so that no turn of
 * the loop is long. Writes go to both meanwhile, so the copy shows the database as of the last
 * call.
 *
 * The copy belongs to no boot of this machine. A daemon that starts from it treats every running
 * sandbox as if the machine had rebooted, and continues event numbers far above those already used.
 */
#include "store/store.h"

struct store_copy;

/* path must not exist yet. On failure it is removed. */
must_check int store_copy_begin(struct store *st, const char *path, struct store_copy **ret,
                                struct err *err);
/* 1: there is more to do. 0: the copy is complete, as of now. */
must_check int store_copy_step(struct store_copy *c, struct err *err);
/* Frees the copy, complete or not. The caller removes the file. NULL is fine. */
void store_copy_free(struct store_copy *c);
