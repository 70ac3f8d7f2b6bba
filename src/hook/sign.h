// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Signatures as in Standard Webhooks 1.0, so that receivers can use existing libraries: HMAC-SHA256
 * over "ID.SECONDS.BODY" under the secret's bytes, as "v1,BASE64". A secret is shown as
 * "whsec_BASE64".
 */
#include "base/auto.h"

#include <stdbool.h>

#define HOOK_SECRET_BYTES 32  /* of those that we make */
#define HOOK_SECRET_SIZE  128 /* of the text, with its NUL; others' have up to 64 bytes */
#define HOOK_SIGN_SIZE    64

void hook_secret_make(char ret[HOOK_SECRET_SIZE]);
bool hook_secret_is_valid(const char *secret);
/* -EINVAL: not a secret of ours. */
must_check int hook_sign(const char *secret, const char *id, uint64_t seconds, const char *body,
                         size_t len, char ret[HOOK_SIGN_SIZE]);
