// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One key that signs tokens: RSA of 2048 bits, for RS256. That is the only algorithm that every
 * verifier of OpenID Connect must know, and the only one that all large clouds take: Azure's
 * federated credentials refuse ES256. A signature takes about a millisecond.
 *
 * Its name is the thumbprint of its public half (RFC 7638), so it says nothing else, and two keys
 * never share one.
 */
#include "base/buf.h"

#define SIGNING_KEY_NAME_SIZE 45 /* room to encode a SHA-256 in base64url */

struct signing_key;

/* Takes a tenth of a second and more. Any thread may call it. */
must_check int signing_key_make(struct signing_key **ret);
must_check int signing_key_read(const char *pem, struct signing_key **ret);
void signing_key_free(struct signing_key *key); /* NULL is fine */
/* The private half, which the caller overwrites and frees; NULL: there is no memory. */
char *signing_key_pem(const struct signing_key *key);
const char *signing_key_name(const struct signing_key *key);
const char *signing_key_modulus(
	const struct signing_key *key); /* base64url; the exponent is 65537 */
/* Appends the signature of text in base64url. */
must_check int signing_key_sign(const struct signing_key *key, const char *text, size_t len,
                                struct buf *out);
