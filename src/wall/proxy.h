// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * HTTP through the wall, plain or inside TLS that the wall terminates. Each request is judged by
 * itself, by its host, method, path, query and fields. It goes to the host that it names and is
 * written anew; so is the reply. A denied request gets a reply that says so, and ends the
 * connection. With TLS all requests must be for the host of the connection.
 */
#include "loop/loop.h"
#include "wall/door.h"

struct proxy;

struct proxy_config {
	struct door *door;
	int guest_fd; /* owned, also when proxy_new() fails */
	struct address dialled;
	uint16_t port;
	const struct host *tls_host; /* who the guest takes the wall for; NULL: no TLS. Copied */
	bool offers_both;            /* then: in ALPN, HTTP/1.1 and HTTP/2 */
	const struct buf *first;     /* what the guest has sent already; copied */
	/* Every request is denied for this reason, which is on record already; NULL: it is judged.
	 * Borrowed for as long as the proxy lives. */
	const char *refusal;
	loop_fn done; /* once */
	void *arg;
};

must_check int proxy_new(const struct proxy_config *config, struct proxy **ret);
void proxy_free(struct proxy *p); /* NULL is fine */
/* Whether the current policy allows the request under way. */
bool proxy_is_still_allowed(struct proxy *p);
