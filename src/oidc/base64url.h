// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The URL's alphabet without padding (RFC 4648, 5), as tokens have it. */
#include "base/auto.h"

#include <sys/types.h>

#define base64url_size(len) (((len) + 2) / 3 * 4 + 1)
/* Gives the length of the text, which has a NUL behind it. */
size_t base64url_encode(const void *data, size_t len, char *ret);
/* Strict: one text for each value, so bits that stand for nothing must be zero. ret has room for
 * len bytes. -EINVAL. */
must_check ssize_t base64url_decode(const char *text, size_t len, void *ret);
