// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The kinds of keys that are taken, and numbers in them. Shared by the files of keys; private to
 * them. */
#include "net/ssh/wire.h"

#include <openssl/bn.h>
#include <openssl/evp.h>

#define SSH_RSA_BITS_MIN 2048
#define SSH_RSA_BITS_MAX 8192
#define SSH_BLOB_MAX     4096 /* of a public key, and of a signature */
#define SSH_NUMBER_MAX   (SSH_RSA_BITS_MAX / 8 + 1)

struct ssh_key_kind {
	const char *name;  /* of the key, and of its signatures unless it is RSA */
	const char *curve; /* as SSH calls it, or NULL */
	const char *group; /* as OpenSSL does */
	int bits;          /* of the curve */
	const EVP_MD *(*hash)(void);
};

extern const struct ssh_key_kind ssh_key_kinds[];
const struct ssh_key_kind *ssh_key_kind_named(const struct cursor *name); /* NULL: not taken */
const struct ssh_key_kind *ssh_key_kind_of(const EVP_PKEY *pair);         /* likewise */
static inline bool ssh_key_kind_is_rsa(const struct ssh_key_kind *kind)
{
	return !kind->hash;
}
static inline size_t ssh_point_len(const struct ssh_key_kind *kind)
{
	return 1 + 2 * (((size_t)kind->bits + 7) / 8);
}

/* The hash of an RSA signature of that name; NULL: not taken, as SHA-1 is not. */
const EVP_MD *ssh_rsa_hash(const struct cursor *name);

/* NULL: none, negative, or too long. The caller's to free. */
BIGNUM *ssh_get_number(struct cursor *c);
must_check int ssh_put_number(struct buf *out, const BIGNUM *n);
/* The public half of the pair in SSH's form. */
must_check int ssh_put_public(struct buf *out, const struct ssh_key_kind *kind, EVP_PKEY *pair);
/* From the fields of a public key, behind its name. NULL: it is none. */
EVP_PKEY *ssh_get_public(struct cursor *c, const struct ssh_key_kind *kind);
/* Of an elliptic curve, from its point, and perhaps its secret number. */
EVP_PKEY *ssh_make_curve_key(const struct ssh_key_kind *kind, const struct cursor *point,
                             const BIGNUM *secret);
/* Decodes base64 in which line ends may be. < 0: it is none, or too long for out. */
must_check int ssh_decode_base64(const char *text, size_t len, struct buf *out);
