// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A token bucket: tokens come back with time, and an event that finds none is over the rate. */
#include <stdbool.h>
#include <stdint.h>

struct bucket {
	uint64_t tokens, at_us;
};

static inline bool bucket_take(struct bucket *b, uint64_t now_us, uint64_t per_second,
                               uint64_t burst)
{
	uint64_t period_us = UINT64_C(1000000) / per_second;
	uint64_t n = b->at_us == 0 ? burst : (now_us - b->at_us) / period_us;

	if (n > 0) {
		b->tokens = n >= burst - b->tokens ? burst : b->tokens + n;
		b->at_us = b->at_us == 0 || b->tokens == burst ? now_us : b->at_us + n * period_us;
	}
	if (b->tokens == 0)
		return false;
	b->tokens--;
	return true;
}
