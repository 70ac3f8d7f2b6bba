// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A steady clock for deadlines (it counts sleep too, and no date change moves it), the wall for
 * records, and what this thread has worked. */
#include <stdint.h>

uint64_t clock_steady_us(void); /* CLOCK_BOOTTIME */
uint64_t clock_wall_us(void);   /* CLOCK_REALTIME, since 1970 */
uint64_t clock_cpu_us(void);    /* CLOCK_THREAD_CPUTIME_ID: a system call, unlike the others */
