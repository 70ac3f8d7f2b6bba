// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Decimal fractions as whole billionths ("nano"): money and the like, without floats. */
#include "base/auto.h"

#define DECIMAL_SIZE 32 /* of the longest text, and its NUL */

must_check int decimal_parse(const char *text,
                             uint64_t *ret_nano);           /* "12", "0.05"; -EINVAL, -ERANGE */
void decimal_format(uint64_t nano, char ret[DECIMAL_SIZE]); /* "0.05": at least two decimals */

uint64_t sum_u64(uint64_t a, uint64_t b); /* or the largest number there is */
/* a * b / c, rounded down, or the largest number; c must not be 0. */
uint64_t scale_u64(uint64_t a, uint64_t b, uint64_t c);
