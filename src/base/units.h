// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Units of size and time, each defined once. All are unsigned: 64 bits hold every product in
 * use. */
#include <stdint.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)

#define MILLISECOND_US UINT64_C(1000)
#define SECOND_US      (1000 * MILLISECOND_US)
#define SECOND_NS      (1000 * SECOND_US)
#define HOUR_MS        UINT64_C(3600000)
#define DAY_MS         (24 * HOUR_MS)
#define DAY_US         (DAY_MS * MILLISECOND_US)
