// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The frequency of the counter that an emulated guest uses as its clock, in kHz; 0 if the machine
 * reports it itself. Takes some milliseconds. */
#include <stdint.h>

uint64_t ticks_khz(void);
