// SPDX-License-Identifier: Apache-2.0
#include "broker/slots.h"

static bool is_taken(const struct slots *s, uint32_t slot)
{
	return s->words[slot / SLOTS_A_WORD] & BIT64(slot % SLOTS_A_WORD);
}

static void mark(struct slots *s, uint32_t slot)
{
	s->words[slot / SLOTS_A_WORD] |= BIT64(slot % SLOTS_A_WORD);
}

int slots_take(struct slots *s, uint32_t *ret)
{
	for (uint32_t i = 0; i < BROKER_SLOTS; i++) {
		uint32_t slot = (s->next + i) % BROKER_SLOTS;

		if (is_taken(s, slot))
			continue;
		mark(s, slot);
		s->next = slot + 1;
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
	s->next = MAX(s->next, slot + 1) % BROKER_SLOTS;
	return true;
}

void slots_give(struct slots *s, uint32_t slot)
{
	s->words[slot / SLOTS_A_WORD] &= ~BIT64(slot % SLOTS_A_WORD);
}
