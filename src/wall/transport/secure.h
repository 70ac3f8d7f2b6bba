// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * TLS at both ends of a connection that the wall looks into. The guest gets a certificate from the
 * sandbox's own issuer. The server must have one that the host's store trusts, for the same name
 * that was judged and dialled. No session is resumed: each connection is verified anew.
 *
 * Both ends speak the same (ALPN), since no message changes from one to the other on its way:
 * HTTP/1.1, or HTTP/2 for a guest that offers nothing else, as gRPC does, or that offers both to a
 * server that is known to speak it (proxy_version.c).
 */
#include "base/buf.h"
#include "http/transport.h"
#include "wall/transport/issuer.h"

struct secure;

/*
 * Reads the host's certificates, so it is called before the process is confined. ca_file adds more,
 * and may be NULL. If the host has none, no server is trusted.
 */
must_check int secure_new(const char *ca_file, const uint8_t secret[ISSUER_SECRET_SIZE],
                          struct secure **ret, struct err *err);
void secure_free(struct secure *s); /* NULL is fine */
must_check int secure_make_issuer(const struct secure *s, const char *sandbox_id,
                                  struct issuer **ret);
struct issuer *secure_refusals(const struct secure *s); /* the one for all sandboxes; borrowed */
/* first: what the guest has sent already. prefers_h2: if the guest offers both. */
must_check int secure_meet_guest(struct secure *s, struct transport *t, struct issuer *issuer,
                                 const struct host *host, bool prefers_h2, const struct buf *first);
enum secure_offer { SECURE_HTTP1, SECURE_H2, SECURE_EITHER };
must_check int secure_meet_server(struct secure *s, struct transport *t, const struct host *host,
                                  enum secure_offer offer);
bool secure_is_h2(const struct transport *t); /* both have agreed on HTTP/2, and TLS is ready */
#define SECURE_WHY_SIZE 80
/* Why such a transport failed, in words for the event log. */
void secure_explain(const struct transport *t, bool is_guest, char why[SECURE_WHY_SIZE]);
