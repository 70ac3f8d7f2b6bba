// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which uid ranges are in use. A range is reused as late as possible: if a bug leaves a file or
 * process of a sandbox behind, it does not soon get a new owner.
 */
#include "broker/broker.h"

#define SLOTS_A_WORD 64

struct slots {                                       /* zeroes: all are free */
	uint32_t next;                               /* counted from first */
	uint32_t first, n;                           /* that slots_take() gives */
	uint64_t words[BROKER_SLOTS / SLOTS_A_WORD]; /* bit set: taken */
};

/* Which ones slots_take() gives: others are another daemon's on this kernel. n 0: all from first.
 */
void slots_set_range(struct slots *s, uint32_t first, uint32_t n);
must_check int slots_take(struct slots *s, uint32_t *ret); /* -ENOSPC */
/* Takes this slot, also one that slots_take() does not give: the setting may have been another.
 * False if it is in use, or not one of BROKER_SLOTS. */
must_check bool slots_claim(struct slots *s, uint32_t slot);
void slots_give(struct slots *s, uint32_t slot);
