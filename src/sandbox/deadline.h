// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * When the calls that run must be over, for the gateway after this one: contexts outlive a gateway
 * that dies, and so do the calls in them. A file of slots, one for each context that has run a
 * call with a timeout.
 *
 * NULL in place of the deadlines is fine: nothing is kept.
 */
#include "base/err.h"

#include <stdint.h>

struct deadlines;

#define DEADLINE_NONE (-1) /* a slot that is none */

must_check int deadlines_open(const char *path, struct deadlines **ret, struct err *err);
void deadlines_close(struct deadlines *d);

/* Notes it on the steady clock; 0: no call runs. *slot is the context's, DEADLINE_NONE at first. */
void deadline_set(struct deadlines *d, int *slot, const char *context_id, uint64_t until_us);
void deadline_drop(struct deadlines *d, int *slot); /* the context is gone */

/* What an earlier gateway has noted, 0 = nothing; the slot is the context's again. */
uint64_t deadline_find(struct deadlines *d, const char *context_id, int *ret_slot);
void deadlines_sweep(struct deadlines *d); /* what nobody has found is of contexts that are gone */
