// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which uid ranges are in use. A range is reused as late as possible: if a bug leaves a file or
 * process of a sandbox behind, it does not soon get a new owner.
 */
#include "broker/broker.h"

#define SLOTS_A_WORD 64

struct slots { /* zeroes: all are free */
	uint32_t next;
	uint64_t words[BROKER_SLOTS / SLOTS_A_WORD]; /* bit set: taken */
};

must_check int slots_take(struct slots *s, uint32_t *ret); /* -ENOSPC */
/* Takes this slot. False if it is in use or out of range. */
must_check bool slots_claim(struct slots *s, uint32_t slot);
void slots_give(struct slots *s, uint32_t slot);
