// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The URL's alphabet without padding (RFC 4648, 5), as tokens have it; base/parse.h encodes. */
#include "base/auto.h"

#include <sys/types.h>

/* Strict: one text for each value, so bits that stand for nothing must be zero. ret has room for
 * len bytes. -EINVAL. */
must_check ssize_t base64url_decode(const char *text, size_t len, void *ret);
