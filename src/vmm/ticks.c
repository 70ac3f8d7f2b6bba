// SPDX-License-Identifier: Apache-2.0
/*
 * An emulated x86 guest reads this host's own counter of ticks, and learns its frequency at boot by
 * holding it against another timer. On a busy host it stands still between two looks, and believes
 * in a counter many times slower than the real one: its clock then runs that much too fast for as
 * long as it lives, and so do those of all copies. Here the same is done with looks that were not
 * interrupted, and the guest is told.
 */
#include "vmm/ticks.h"

#if defined(__x86_64__)
#include <time.h>
#include <x86intrin.h>

#define LOOKS   16
#define WAIT_NS (20 * 1000 * 1000)

struct look {
	uint64_t ticks, ns;
};

/* The quickest of some: between its two readings there was nobody else. */
static struct look look_at_both(void)
{
	uint64_t least = UINT64_MAX;
	struct look best = {0};

	for (int i = 0; i < LOOKS; i++) {
		struct timespec now;
		const uint64_t before = __rdtsc();

		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		const uint64_t took = __rdtsc() - before;

		if (took >= least)
			continue;
		least = took;
		best.ticks = before + took / 2;
		best.ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	}
	return best;
}

uint64_t ticks_khz(void)
{
	const struct timespec wait = {.tv_nsec = WAIT_NS};
	const struct look first = look_at_both();
	struct look last;

	do {
		(void)nanosleep(&wait, NULL);
		last = look_at_both();
	} while (last.ns <= first.ns);
	return (last.ticks - first.ticks) * 1000 / ((last.ns - first.ns) / 1000);
}
#else
uint64_t ticks_khz(void)
{
	return 0;
}
#endif
