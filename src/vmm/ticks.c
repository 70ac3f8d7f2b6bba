// SPDX-License-Identifier: Apache-2.0
/*
 * An emulated x86 guest reads the host's time stamp counter, and measures its frequency at boot
 * against another timer. On a busy host it may be interrupted between two readings, and measures a
 * frequency that is far too low: its clock then runs too fast for its whole life, and so do those
 * of all its copies. So we measure here, with readings that were not interrupted, and tell the
 * guest.
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

/* The fastest of several pairs of readings: it was not interrupted. */
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
