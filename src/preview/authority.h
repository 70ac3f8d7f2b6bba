// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A certificate authority of the daemon's own, for the names of its preview domain: with it TLS
 * works where the operator has given no certificate. Clients are told to trust it (`cloche trust`).
 *
 *	DATA/authority/DOMAIN.pem   key and certificate, of root alone; made at the first start
 *	     | signs
 *	one certificate for DOMAIN, *.DOMAIN and api.DOMAIN, in memory, for 30 days, a new one
 *	with a new key after 20
 *
 * Who trusts it should not have to trust the daemon with anything else. So its certificate permits
 * DOMAIN and what is below it, no other name and no address (X.509 name constraints), and is good
 * for servers alone: even with the stolen key nobody is believed to be another site.
 *
 * An authority lasts ten years. At the first start in its last two years a successor is made beside
 * it. Clients are told both from then on, while the older one signs as long as it can: whoever asks
 * once in these years notices nothing. One that has expired is removed at a start.
 *
 * One thread. The file is read while the process can still see it, and is not needed later.
 */
#include "base/err.h"

#include <stdbool.h>
#include <time.h>

#define AUTHORITY_DAYS         3650
#define AUTHORITY_SUCCEED_DAYS 730
#define AUTHORITY_LEAF_DAYS    30
#define AUTHORITY_RENEW_DAYS   20
#define AUTHORITY_MAX          2 /* one and its successor */

struct authority;
struct tls_context;
struct x509_st;
struct evp_pkey_st;

/* Reads DIR/DOMAIN.pem, and makes what is missing. */
must_check int authority_open(const char *dir, const char *domain, time_t now_s,
                              struct authority **ret, struct err *err);
void authority_free(struct authority *a);             /* NULL is fine */
const char *authority_pem(const struct authority *a); /* what clients are to trust; borrowed */
size_t authority_count(const struct authority *a);
/* SHA-256 of certificate i, as "AB:CD:…"; borrowed. */
const char *authority_fingerprint(const struct authority *a, size_t i);
time_t authority_expires_s(const struct authority *a); /* the last of them */
/*
 * The certificate for a client that asks for server_name (NULL: for none) at that time, and its
 * key: borrowed until the next call.
 */
must_check int authority_certify(struct authority *a, const char *server_name, time_t now_s,
                                 struct x509_st **ret_cert, struct evp_pkey_st **ret_key);
/* Lets the sessions of this context have certificates of the authority, which must outlive them. */
void authority_serve(struct authority *a, struct tls_context *tls);
