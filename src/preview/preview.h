// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Ports of sandboxes as web sites: requests are passed to the server inside, and its answers back.
 *
 *	by path   /p/ID/PORT/…, /p/ID/PORT~TOKEN/…   on the daemon's own address
 *	by name   PORT-ID.DOMAIN                     where the operator has given a domain
 *
 * Neither side is trusted: a sandbox's pages must not act as the daemon's, and its server must not
 * see what is meant for the daemon. By name, a sandbox has its own origin. By path, it shares the
 * daemon's address, so its pages get no origin (CSP sandbox), and no cookie passes in either
 * direction; the token is in the path, where relative links keep it.
 */
#include "http/server.h"
#include "sandbox/network/port.h"
#include "tenant/key.h"

#define PREVIEW_HOST_SIZE 256

struct preview { /* borrowed, all of it */
	struct fleet *fleet;
	struct keyring *keyring; /* whose keys are kept from servers inside */
	const char *domain;      /* lower case; NULL = none */
	/* Asks the other products' APIs (src/compat) whether they let a request in to a port that
	 * is not open here; may be NULL. 1: *ret is the sandbox, and ret_host (or "") the Host for
	 * its server; 2: it has answered. */
	int (*admits)(struct http_req *req, const char *id, uint16_t port, struct sandbox **ret,
	              char ret_host[PREVIEW_HOST_SIZE]);
};

/* An http_app's divert. */
int preview_divert(const struct preview *p, struct http_req *req, struct err *err);
