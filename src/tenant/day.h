// SPDX-License-Identifier: Apache-2.0
#pragma once
/* UTC days, counted from 1970-01-01, and the months of bills. No time zone, no libc. */
#include "base/auto.h"

#define DAY_TEXT_SIZE 16      /* "2026-11-15" */
#define DAY_MAX       2932896 /* 9999-12-31 */

int32_t day_of(uint64_t wall_us);
int32_t day_month(int32_t day);      /* the first of its month */
int32_t day_next_month(int32_t day); /* the first of the next */
void day_format(int32_t day, char ret[DAY_TEXT_SIZE]);
must_check int day_parse(const char *text, int32_t *ret); /* YYYY-MM-DD that exists, from 1970 on */
