// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Numbers for the next gateway, about things that survive a gateway's death: when a context's
 * running call must be over, and how many calls a sandbox has had. A file of slots, one for each id
 * that has a number.
 *
 * NULL in place of the counters is fine: nothing is kept.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct crash_counters;

#define CRASH_COUNTER_NONE (-1) /* a slot that is none */

/* is_first: there was no file before. Otherwise an empty or missing file has lost something, and
 * that is logged. */
must_check int crash_counters_open(const char *path, bool is_first, struct crash_counters **ret,
                                   struct err *err);
void crash_counters_close(struct crash_counters *j);

/* Notes a number; 0 removes it. *slot is the id's slot, CRASH_COUNTER_NONE at first. */
void crash_counter_set(struct crash_counters *j, int *slot, const char *id, uint64_t number);
void crash_counter_drop(struct crash_counters *j, int *slot); /* its object is gone */

/* What an earlier gateway has noted, 0 = nothing; *ret_slot is the id's slot. */
uint64_t crash_counter_find(struct crash_counters *j, const char *id, int *ret_slot);
void crash_counters_sweep(
	struct crash_counters *j); /* what nobody has found is of things that are gone */
