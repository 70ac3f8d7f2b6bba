// SPDX-License-Identifier: Apache-2.0
#pragma once
/* TLS 1.2 and later by OpenSSL. A context is made once and serves any number of connections. */
#include "base/err.h"

struct tls_context;
struct ssl_st;
struct ssl_ctx_st;

/* For a server: a PEM chain with its key. */
must_check int tls_context_new(const char *cert_path, const char *key_path,
                               struct tls_context **ret, struct err *err);
/* For a client, which verifies the server. ca_path is a PEM file; NULL = the system's store, or
 * $SSL_CERT_FILE. */
must_check int tls_context_new_client(const char *ca_path, struct tls_context **ret,
                                      struct err *err);
/* For a server that gives each session its own certificate. */
must_check int tls_context_new_bare(struct tls_context **ret, struct err *err);
/* Makes a client trust these certificates too. */
must_check int tls_context_trust(struct tls_context *ctx, const char *ca_path, struct err *err);
struct ssl_ctx_st *tls_context_ssl(struct tls_context *ctx); /* borrowed */
void tls_context_free(struct tls_context *ctx); /* NULL is fine; connections keep what they need */

/*
 * A session on a non-blocking socket, which the caller still owns. server_name NULL: the server's
 * side; else the name or address that the certificate must have. The handshake happens in the first
 * reads and writes.
 */
must_check int tls_session_new(struct tls_context *ctx, int fd, const char *server_name,
                               struct ssl_st **ret, struct err *err);
/* Bytes that were already read from the socket: TLS sees them first. */
must_check int tls_session_feed(struct ssl_st *ssl, const void *data, size_t len);
/* Why the last call on this thread failed, or "". */
void tls_last_error(char *text, size_t size);
