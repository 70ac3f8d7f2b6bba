// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which uid ranges are taken. One comes round again as late as possible, so that a file or process
 * that survived its sandbox by a mistake of ours meets no new owner soon.
 */
#include "broker/broker.h"

#define SLOTS_A_WORD 64

struct slots { /* zeroes: all are free */
	uint32_t next;
	uint64_t words[BROKER_SLOTS / SLOTS_A_WORD]; /* bit set: taken */
};

must_check int slots_take(struct slots *s, uint32_t *ret); /* -ENOSPC */
/* Takes that very one: false if it is taken, or none of ours. */
must_check bool slots_claim(struct slots *s, uint32_t slot);
void slots_give(struct slots *s, uint32_t slot);
