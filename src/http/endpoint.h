// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The address that a blocking client connects to, from a URL: "unix:/path", "http://host[:port]" or
 * "https://host[:port]". */
#include "http/target.h"
#include "http/transport.h"

struct endpoint {
	char *url;
	char *socket_path; /* NULL = TCP */
	char *authority;   /* for the Host field */
	char host[HTTP_HOST_SIZE];
	char port[8];
	struct tls_context *tls; /* NULL = none */
};

must_check int endpoint_init(struct endpoint *e, const char *url, struct err *err);
void endpoint_done(struct endpoint *e); /* also after a failed init */
/* Waits up to ten seconds. The socket is non-blocking; the TLS handshake is still to come. */
must_check int endpoint_connect(const struct endpoint *e, struct transport *ret, struct err *err);
