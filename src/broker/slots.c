// SPDX-License-Identifier: Apache-2.0
#include "broker/slots.h"

#include <assert.h>

static bool is_taken(const struct slots *s, uint32_t slot)
{
	return s->words[slot / SLOTS_A_WORD] & BIT64(slot % SLOTS_A_WORD);
}

static void mark(struct slots *s, uint32_t slot)
{
	s->words[slot / SLOTS_A_WORD] |= BIT64(slot % SLOTS_A_WORD);
}

void slots_set_range(struct slots *s, uint32_t first, uint32_t n)
{
	assert(first < BROKER_SLOTS);
	s->first = first;
	s->n = n ? MIN(n, BROKER_SLOTS - first) : BROKER_SLOTS - first;
}

int slots_take(struct slots *s, uint32_t *ret)
{
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t at = (s->next + i) % s->n;
		uint32_t slot = s->first + at;

		if (is_taken(s, slot))
			continue;
		mark(s, slot);
		s->next = at + 1;
		*ret = slot;
		return 0;
	}
	return -ENOSPC;
}

bool slots_claim(struct slots *s, uint32_t slot)
{
	if (slot >= BROKER_SLOTS || is_taken(s, slot))
		return false;
	mark(s, slot);
	if (slot >= s->first && slot - s->first < s->n)
		s->next = MAX(s->next, slot - s->first + 1) % s->n;
	return true;
}

void slots_give(struct slots *s, uint32_t slot)
{
	s->words[slot / SLOTS_A_WORD] &= ~BIT64(slot % SLOTS_A_WORD);
}
