// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <time.h>

static uint64_t read_us(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t clock_steady_us(void)
{
	return read_us(CLOCK_BOOTTIME);
}

uint64_t clock_wall_us(void)
{
	return read_us(CLOCK_REALTIME);
}

uint64_t clock_cpu_us(void)
{
	return read_us(CLOCK_THREAD_CPUTIME_ID);
}
