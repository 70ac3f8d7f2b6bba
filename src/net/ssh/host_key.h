// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The key by which an SSH server proves what it is, as known_hosts and ssh-keyscan write it:
 *
 *	ssh-ed25519 AAAA…
 *
 * Ed25519, ECDSA on the curves of NIST, and RSA of 2048 to 8192 bits. Certificates, and keys of
 * hardware tokens, are not taken.
 */
#include "base/auto.h"

#include <stdbool.h>

struct ssh_host_key;

/* *why: what is wrong with it. On success the caller owns *ret. */
must_check int ssh_host_key_read(const char *text, struct ssh_host_key **ret, const char **why);
void ssh_host_key_free(struct ssh_host_key *key);
const char *ssh_host_key_text(const struct ssh_host_key *key); /* its name and base64 */
bool ssh_host_key_is(const struct ssh_host_key *key, const void *blob, size_t len);
/* Whether it made the signature over the data; not by SHA-1. */
bool ssh_host_key_has_signed(const struct ssh_host_key *key, const void *signature,
                             size_t signature_len, const void *data, size_t len);
