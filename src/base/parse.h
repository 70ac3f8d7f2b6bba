// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Numbers and small texts from outside: all of the text or an error. No locale, no leading '+',
 * blanks or zeros. */
#include "base/auto.h"

#include <stdbool.h>
#include <sys/types.h>

must_check int parse_u64(const char *text, uint64_t max, uint64_t *ret); /* -EINVAL or -ERANGE */
must_check int parse_hex(const char *text, size_t len,
                         uint64_t *ret); /* 1 to 16 digits, nothing else */

/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing past U+10FFFF. */
/* Length of the first character, 0 if it is invalid, -1 if it is cut off by the end. len: 1 or
 * more.
 */
int utf8_char(const char *data, size_t len);
bool utf8_is_valid(const char *data, size_t len);
/*
 * The length of the valid, complete text at the beginning of data. *ret_cut tells whether what
 * follows may be the beginning of a character that the next chunk completes (up to 3 bytes), rather
 * than an invalid byte.
 */
size_t utf8_valid_prefix(const char *data, size_t len, bool *ret_cut);

/* Standard alphabet with padding. ret must have room for base64_size(len) bytes; gives the length
 * without NUL. */
#define base64_size(len) (((len) + 2) / 3 * 4 + 1)
size_t base64_encode(const void *data, size_t len, char *ret);
/* The alphabet for URLs, without padding: two other letters. Otherwise the same. */
size_t base64url_encode(const void *data, size_t len, char *ret);
must_check ssize_t base64_decode(const char *text, size_t len,
                                 void *ret); /* strict; room for len/4*3; -EINVAL */
