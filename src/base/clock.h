// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Three clocks: a steady one for deadlines (it counts suspend too, and setting the date does not
 * move it), the wall clock for records, and the CPU time of this thread. */
#include <stdint.h>

uint64_t clock_steady_us(void); /* CLOCK_BOOTTIME */
uint64_t clock_wall_us(void);   /* CLOCK_REALTIME, since 1970 */
uint64_t clock_cpu_us(void);    /* CLOCK_THREAD_CPUTIME_ID: a system call, unlike the others */
