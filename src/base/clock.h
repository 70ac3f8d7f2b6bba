// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Two clocks: a steady one for deadlines (it counts sleep too, and no date change moves it), and
 * the wall for records. */
#include <stdint.h>

uint64_t clock_steady_us(void); /* CLOCK_BOOTTIME */
uint64_t clock_wall_us(void);   /* CLOCK_REALTIME, since 1970 */
