// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A signed token in its compact form, HEADER.PAYLOAD.SIGNATURE (RFC 7515), and the keys that it may
 * be signed with (RFC 7517). No I/O, no clock.
 *
 * The algorithm comes from a short list of public-key signatures; "none" and those with a shared
 * secret are not in it, so a public key can never be taken for a secret. A key is only ever used
 * for its own type, and for its own algorithm where it names one. Whatever a header says about
 * where a key is to be found is not looked at. Keys of a type that is not known are left out.
 */
#include "base/json/json.h"

#define JWS_TEXT_MAX  ((size_t)32 * 1024)
#define JWKS_TEXT_MAX ((size_t)256 * 1024)
#define JWKS_KEYS_MAX 64
#define JWS_NAME_SIZE 257 /* of a key's id, which may be empty */

struct jws {
	size_t alg; /* a row of the list */
	char kid[JWS_NAME_SIZE];
	bool has_kid;
	char type[32]; /* lower case; "" = none */
	json_t *payload;
	size_t signed_len; /* of the text: HEADER.PAYLOAD */
	unsigned char signature[1024];
	size_t signature_len;
};

/* The caller owns *ret by jws_done(), on success only. Nothing in it is to be trusted before
 * jws_verify(). */
must_check int jws_parse(const char *text, size_t len, struct jws *ret, struct err *err);
void jws_done(struct jws *jws);

struct jwks;
must_check int jwks_parse(const char *text, size_t len, struct jwks **ret, struct err *err);
void jwks_free(struct jwks *keys); /* NULL is fine */
size_t jwks_count(const struct jwks *keys);

/* text is what jws was parsed from. 0: signed by one of them. -ENOKEY: there is no key that it
 * could be signed with; -EBADMSG: it is not. */
must_check int jws_verify(const struct jws *jws, const char *text, const struct jwks *keys,
                          struct err *err);
