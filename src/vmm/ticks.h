// SPDX-License-Identifier: Apache-2.0
#pragma once
/* How fast the counter runs that an emulated guest tells time by, in kHz; 0 where it is told by the
 * machine itself. Takes some milliseconds. */
#include <stdint.h>

uint64_t ticks_khz(void);
