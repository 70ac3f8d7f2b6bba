// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Moments that somebody outside has written. */
#include "base/auto.h"

/* As in RFC 3339, such as "2026-01-31T09:30:00.5+01:00", from 1970 on; all of the text, or -EINVAL.
 * What is below a microsecond is cut off. */
must_check int wall_time_parse(const char *text, uint64_t *ret_us);
