// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Ports of sandboxes as web sites: what comes in for one is sent to the server inside, and its
 * answer back.
 *
 *	by path   /p/ID/PORT/…, /p/ID/PORT~TOKEN/…   on the daemon's own address
 *	by name   PORT-ID.DOMAIN                     where the operator has given a domain
 *
 * Both sides are hostile: a sandbox's pages must not become the daemon's, and its server must not
 * see what is meant for the daemon. By name a sandbox has an origin of its own. By path it shares
 * the daemon's address, so its pages are told to be of no origin (CSP sandbox), and no cookie
 * passes in either direction; the token is then in the path, where relative links keep it.
 */
#include "http/server.h"
#include "sandbox/network/port.h"
#include "tenant/key.h"

#define PREVIEW_HOST_SIZE 256

struct preview { /* borrowed, all of it */
	struct fleet *fleet;
	struct keyring *keyring; /* whose keys are kept from servers inside */
	const char *domain;      /* lower case; NULL = none */
	/* Whom another face lets in to a port that is not open here (src/compat); NULL: nobody. 1:
	 * *ret is the sandbox, and ret_host (or "") what its server is to be asked as; 2: it has
	 * answered. */
	int (*admits)(struct http_req *req, const char *id, uint16_t port, struct sandbox **ret,
	              char ret_host[PREVIEW_HOST_SIZE]);
};

/* An http_app's divert. */
int preview_divert(const struct preview *p, struct http_req *req, struct err *err);
