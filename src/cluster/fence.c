// SPDX-License-Identifier: Apache-2.0
#include "cluster/fence.h"

#include "base/auto.h"
#include "base/units.h"

const struct fence_rules fence_usual = {
	.beat_us = 2 * SECOND_US,
	.fence_after_us = 6 * SECOND_US,
	.lost_after_us = 300 * SECOND_US,
	.margin_us = 1 * SECOND_US,
	.ending_us = 10 * SECOND_US,
	.clock_jump_us = SECOND_US / 2,
};

uint64_t fence_send(struct fence *f, uint64_t now_us)
{
	f->number++;
	f->number_sent_us = now_us;
	f->is_open = true;
	return f->number;
}

static bool answer(struct fence *f, uint64_t number)
{
	if (!f->is_open || number != f->number)
		return false;
	f->is_open = false;
	f->right_us = f->number_sent_us;
	f->has_right = f->was_in = true;
	return true;
}

bool fence_answered(struct fence *f, uint64_t number)
{
	return f->is_in && answer(f, number);
}

bool fence_joined(struct fence *f, uint64_t number, uint64_t epoch)
{
	if (!answer(f, number))
		return false;
	f->epoch = epoch;
	f->is_in = true;
	return true;
}

void fence_refused(struct fence *f)
{
	f->is_in = f->is_open = false;
}

void fence_look(struct fence *f, const struct fence_rules *rules, uint64_t steady_us,
                uint64_t wall_us)
{
	int64_t gap = (int64_t)(wall_us - steady_us);
	int64_t parted = gap - f->clock_gap_us;

	if (f->has_clocks && (uint64_t)(parted < 0 ? -parted : parted) > rules->clock_jump_us) {
		f->has_right = false;
		f->is_open = false; /* it was sent before */
	}
	f->clock_gap_us = gap;
	f->has_clocks = true;
}

uint64_t fence_lost_us(const struct fence *f, const struct fence_rules *rules)
{
	return f->right_us + rules->lost_after_us - rules->ending_us;
}

enum fence_state fence_state(const struct fence *f, const struct fence_rules *rules,
                             uint64_t now_us)
{
	if (f->was_in && now_us >= fence_lost_us(f, rules))
		return FENCE_LOST;
	if (!f->is_in)
		return FENCE_OUT;
	return f->has_right && now_us < f->right_us + rules->fence_after_us ? FENCE_HELD
	                                                                    : FENCE_FENCED;
}

bool fence_allows(enum fence_state state, enum fence_act act)
{
	static const unsigned allowed[] = {
		[FENCE_OUT] = BIT(FENCE_SERVE),
		[FENCE_HELD] = BIT(FENCE_SERVE) | BIT(FENCE_AGREE) | BIT(FENCE_EXCLUSIVE),
		[FENCE_FENCED] = BIT(FENCE_SERVE),
		[FENCE_LOST] = 0,
	};

	return allowed[state] & BIT(act);
}

uint64_t fence_until(const struct fence *f, const struct fence_rules *rules, uint64_t now_us)
{
	switch (fence_state(f, rules, now_us)) {
	case FENCE_HELD:
		return f->right_us + rules->fence_after_us;
	case FENCE_FENCED:
		return fence_lost_us(f, rules);
	case FENCE_OUT:
		return f->was_in ? fence_lost_us(f, rules) : UINT64_MAX;
	case FENCE_LOST:
		break;
	}
	return UINT64_MAX;
}
