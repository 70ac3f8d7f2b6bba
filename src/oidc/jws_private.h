// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The list of algorithms, and keys, as jws.c and jwks.c share them. */
#include "oidc/jws.h"

#include <openssl/evp.h>

enum jws_kind { JWS_RSA, JWS_RSA_PSS, JWS_EC, JWS_ED25519 };

struct jws_alg {
	const char *name;
	enum jws_kind kind;
	const char *digest; /* NULL: the algorithm's own */
	const char *curve;  /* of keys, as they name it */
	const char *group;  /* the same, as OpenSSL names it */
	size_t half;        /* bytes of a coordinate, and of each half of a signature */
};
extern const struct jws_alg jws_algs[];
extern const size_t n_jws_algs;

struct jwk {
	EVP_PKEY *key;
	const char *type;  /* "RSA", "EC" or "OKP" */
	const char *curve; /* NULL of RSA */
	char kid[JWS_NAME_SIZE];
	char alg[16]; /* "" = any of its type */
	bool has_kid;
};
struct jwks {
	size_t n;
	struct jwk of[JWKS_KEYS_MAX];
};
bool jwk_fits(const struct jwk *key, const struct jws *jws);
