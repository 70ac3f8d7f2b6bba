// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A private key for SSH, from the text that ssh-keygen writes (OpenSSH's own form) or from PEM
 * (PKCS#8, PKCS#1, SEC1), without a passphrase. Kinds are those of host keys, and RSA of 4096 bits
 * at most: a signature holds up the one thread that makes it.
 */
#include "base/buf.h"

#include <stdbool.h>

struct ssh_private_key;

/* *why: what is wrong with it. On success the caller owns *ret. */
must_check int ssh_private_key_read(const char *text, struct ssh_private_key **ret,
                                    const char **why);
void ssh_private_key_free(struct ssh_private_key *key);
const struct buf *ssh_private_key_public(const struct ssh_private_key *key); /* in SSH's form */
/* Appends a signature over the data, in SSH's form. -ENOTSUP: the algorithm is not one of the
 * key's; SHA-1 is none of any. */
must_check int ssh_private_key_sign(const struct ssh_private_key *key, const char *algorithm,
                                    size_t algorithm_len, const void *data, size_t len,
                                    struct buf *out);
