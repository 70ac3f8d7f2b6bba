// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * TLS at both ends of a connection that the wall looks into: to the guest it shows a certificate of
 * the sandbox's own issuer, of the server it asks for one that the host's store vouches for, for
 * the very name that was judged and dialled. Both ends speak HTTP/1.1 and nothing else (ALPN), and
 * nothing is resumed: each connection is verified anew.
 */
#include "base/buf.h"
#include "http/transport.h"
#include "wall/transport/issuer.h"

struct secure;

/*
 * Reads the host's certificates, so it is called before the process is confined. ca_file adds some
 * to them, and may be NULL. A host without any is fine: then no server is believed.
 */
must_check int secure_new(const char *ca_file, const uint8_t secret[ISSUER_SECRET_SIZE],
                          struct secure **ret, struct err *err);
void secure_free(struct secure *s); /* NULL is fine */
must_check int secure_make_issuer(const struct secure *s, const char *sandbox_id,
                                  struct issuer **ret);
/* first: what the guest has sent already. */
must_check int secure_meet_guest(struct secure *s, struct transport *t, struct issuer *issuer,
                                 const struct host *host, const struct buf *first);
must_check int secure_meet_server(struct secure *s, struct transport *t, const struct host *host);
#define SECURE_WHY_SIZE 80
/* Why a transport of one of these failed, in words for the record. */
void secure_explain(const struct transport *t, bool is_guest, char why[SECURE_WHY_SIZE]);
