// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Seals: signed statements about the end of a chain. Since the last hash covers all entries before,
 * a seal shows who only knows the public key that an export is the daemon's and complete up to its
 * head. Signatures are Ed25519, over SEAL_CONTEXT and the statement's bytes, so that a signature
 * made for a seal means nothing elsewhere. Anybody can check one with openssl(1).
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEAL_CONTEXT   "cloche seal 1\n"
#define SEAL_SEED_SIZE 32
#define SEAL_SIZE      89  /* base64 of 64 bytes, with its NUL */
#define SEAL_PEM_SIZE  160 /* of a public key */

struct seal_key;
must_check int seal_key_new(const uint8_t seed[SEAL_SEED_SIZE], struct seal_key **ret,
                            struct err *err);
void seal_key_free(struct seal_key *key);                /* NULL is fine */
const char *seal_key_public(const struct seal_key *key); /* PEM, SubjectPublicKeyInfo */
must_check int seal_sign(const struct seal_key *key, const char *statement, char ret[SEAL_SIZE]);
must_check int seal_check_key(const char *public_pem, struct err *err);
/* CONFLICT if the signature is not that key's. */
must_check int seal_verify(const char *public_pem, const char *statement, const char *signature,
                           struct err *err);
