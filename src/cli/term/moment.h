// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A moment as people write it: "2026-11-17T14:00", perhaps with seconds, by the local clock or,
 * with a Z behind it, by UTC; "14:00" of today; or how long ago it was: "90s", "10m", "2h".
 */
#include "base/err.h"

#include <stdint.h>

must_check int moment_parse(const char *text, uint64_t now_us, uint64_t *ret_us);
void moment_format(uint64_t us, char text[32]); /* "2026-11-17 14:00:05", by the local clock */
