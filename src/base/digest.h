// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A SHA-256, as bytes and as 64 lower-case hexadecimal digits. */
#include "base/auto.h"

#include <stdbool.h>

#define DIGEST_LEN 32
#define DIGEST_HEX (2 * DIGEST_LEN + 1) /* with its NUL */

struct digest {
	uint8_t bytes[DIGEST_LEN];
};

bool digest_is_zero(const struct digest *d); /* stands for none */
bool digest_equal(const struct digest *a, const struct digest *b);
void digest_to_hex(const struct digest *d, char ret[DIGEST_HEX]);
must_check int digest_parse(const char *hex, struct digest *ret); /* 64 digits; -EINVAL */
