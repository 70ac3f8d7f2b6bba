// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A certificate authority. With it the wall presents itself to the guest as the host that the guest
 * wants. Its key is derived from the wall's secret and a name, so the next wall has the same one,
 * and the certificate in the sandbox stays valid. The key exists only in the wall's memory.
 *
 * There are two kinds. A sandbox's own issuer has the sandbox's id as its name; the wall uses it to
 * look into TLS. The issuer of refusals is one for all sandboxes, so that sandboxes can be made
 * ahead that trust it; the wall uses it only to tell a guest that its connection is denied.
 *
 * What could one sandbox do to another with the shared one? It has neither the key of the issuer
 * nor that of any host. It can let the wall refuse a connection for a name of its choice, and pass
 * those bytes on to a guest of another sandbox that it got to dial it. That guest then speaks with
 * the wall, under keys that only these two have. It is told of a refusal, and what it sends goes
 * nowhere. This is why no connection that leads anywhere may use the shared issuer. Its
 * certificates are made anew each time: kept ones would show one sandbox, by their dates or by the
 * time that the handshake takes, what another one has tried to reach.
 */
#include "net/match/host.h"

#define ISSUER_SECRET_SIZE 32
#define ISSUER_PEM_MAX     ((size_t)4096)

struct issuer;
struct x509_st;
struct evp_pkey_st;

must_check int issuer_new(const uint8_t secret[ISSUER_SECRET_SIZE], const char *sandbox_id,
                          struct issuer **ret);
must_check int issuer_new_of_refusals(const uint8_t secret[ISSUER_SECRET_SIZE],
                                      struct issuer **ret);
void issuer_free(struct issuer *i);             /* NULL is fine */
const char *issuer_pem(const struct issuer *i); /* its certificate; borrowed */
/* A certificate for the host, and its key: borrowed until the next call. */
must_check int issuer_certify(struct issuer *i, const struct host *host, struct x509_st **ret_cert,
                              struct evp_pkey_st **ret_key);
