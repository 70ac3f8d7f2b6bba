// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Numbers for the gateway after this one, of things that outlive a gateway which dies: when the
 * call that a context runs must be over, and how many calls a sandbox has had. A file of slots, one
 * for each id that has a number.
 *
 * NULL in place of the counters is fine: nothing is kept.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct crash_counters;

#define CRASH_COUNTER_NONE (-1) /* a slot that is none */

/* Not the first: a file that is empty or gone has lost something, and the log says so. */
must_check int crash_counters_open(const char *path, bool is_first, struct crash_counters **ret,
                                   struct err *err);
void crash_counters_close(struct crash_counters *j);

/* Notes it; 0: there is none. *slot is the id's, CRASH_COUNTER_NONE at first. */
void crash_counter_set(struct crash_counters *j, int *slot, const char *id, uint64_t number);
void crash_counter_drop(struct crash_counters *j, int *slot); /* what it was of is gone */

/* What an earlier gateway has noted, 0 = nothing; the slot is the id's again. */
uint64_t crash_counter_find(struct crash_counters *j, const char *id, int *ret_slot);
void crash_counters_sweep(
	struct crash_counters *j); /* what nobody has found is of things that are gone */
