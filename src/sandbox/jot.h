// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Numbers for the gateway after this one, of things that outlive a gateway which dies: when the
 * call that a context runs must be over, and how many calls a sandbox has had. A file of slots, one
 * for each id that has a number.
 *
 * NULL in place of the jots is fine: nothing is kept.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct jots;

#define JOT_NONE (-1) /* a slot that is none */

/* Not the first: a file that is empty or gone has lost something, and the log says so. */
must_check int jots_open(const char *path, bool is_first, struct jots **ret, struct err *err);
void jots_close(struct jots *j);

/* Notes it; 0: there is none. *slot is the id's, JOT_NONE at first. */
void jot_set(struct jots *j, int *slot, const char *id, uint64_t number);
void jot_drop(struct jots *j, int *slot); /* what it was of is gone */

/* What an earlier gateway has noted, 0 = nothing; the slot is the id's again. */
uint64_t jot_find(struct jots *j, const char *id, int *ret_slot);
void jots_sweep(struct jots *j); /* what nobody has found is of things that are gone */
