// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * TLS between members, both ends with a certificate of the cluster's authority: TLS 1.3, no session
 * is taken up again, so each stream shows its certificate. The URI in it names cluster and node.
 */
#include "base/err.h"
#include "http/transport.h"

struct peer_tls;

/* PEM: this node's key and certificate, and its authorities' that it believes. */
must_check int peer_tls_new(const char *key, const char *certificate, const char *authority,
                            struct peer_tls **ret, struct err *err);
void peer_tls_free(struct peer_tls *tls); /* NULL is fine */
/* The handshake follows by transport_handshake(). */
must_check int peer_tls_start(struct peer_tls *tls, struct transport *t, bool is_server);
/* After the handshake: the name of the peer in this cluster. -EACCES: it has none. */
must_check int peer_tls_name(const struct transport *t, const char *cluster_id, char *ret,
                             size_t size);
/* Why a handshake has failed; "" if OpenSSL does not say. */
void peer_tls_why(const struct transport *t, char *ret, size_t size);
