// SPDX-License-Identifier: Apache-2.0
#include "cluster/watch.h"

void watch_saw(struct watch *w, uint32_t node, uint64_t epoch, uint64_t number, uint64_t server,
               uint64_t received_us)
{
	if (w->node == node && w->epoch == epoch && w->number == number && w->server == server)
		return;
	*w = (struct watch){.node = node,
	                    .epoch = epoch,
	                    .number = number,
	                    .server = server,
	                    .since_us = received_us};
}

static bool is_silent_for(const struct watch *w, uint64_t us, uint64_t now_us)
{
	return w->node != 0 && now_us >= w->since_us && now_us - w->since_us >= us;
}

bool watch_may_claim(const struct watch *w, const struct fence_rules *rules, uint64_t now_us)
{
	return is_silent_for(w, rules->fence_after_us + rules->margin_us, now_us);
}

bool watch_is_lost(const struct watch *w, const struct fence_rules *rules, uint64_t now_us)
{
	return is_silent_for(w, rules->lost_after_us + rules->margin_us, now_us);
}
