// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A sandbox's own certificate authority. With it the wall presents itself to the guest as the host
 * that the guest wants. Its key is derived from the wall's secret and the sandbox's id, so the next
 * wall has the same one, and the certificate in the sandbox stays valid. The key exists only in the
 * wall's memory.
 */
#include "net/match/host.h"

#define ISSUER_SECRET_SIZE 32
#define ISSUER_PEM_MAX     ((size_t)4096)

struct issuer;
struct x509_st;
struct evp_pkey_st;

must_check int issuer_new(const uint8_t secret[ISSUER_SECRET_SIZE], const char *sandbox_id,
                          struct issuer **ret);
void issuer_free(struct issuer *i);             /* NULL is fine */
const char *issuer_pem(const struct issuer *i); /* its certificate; borrowed */
/* A certificate for the host, and its key: borrowed until the next call. */
must_check int issuer_certify(struct issuer *i, const struct host *host, struct x509_st **ret_cert,
                              struct evp_pkey_st **ret_key);
