// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A copy of the database in another file, made while it is in use: a few pages a call, so that no
 * turn of the loop is long. What is written meanwhile goes to both, so the copy is what the
 * database is in the call that finishes it.
 *
 * The copy is of no boot of this machine: whoever starts from it finds every sandbox that ran as
 * one whose machine was started anew, and the numbers of events go on far behind those that were
 * told.
 */
#include "store/store.h"

struct store_copy;

/* path: a file that is not there. On failure nothing is left of it. */
must_check int store_copy_begin(struct store *st, const char *path, struct store_copy **ret,
                                struct err *err);
/* 1: there is more to do. 0: the copy is whole, as of now. */
must_check int store_copy_step(struct store_copy *c, struct err *err);
/* Whole or not. The file stays the caller's to remove. NULL is fine. */
void store_copy_free(struct store_copy *c);
