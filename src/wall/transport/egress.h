// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The handshake with a policy's proxy that turns a connection to it into one to the host: SOCKS5
 * (RFC 1928, with the name and password of RFC 1929) or HTTP CONNECT. Names are passed on
 * unresolved. No byte is read beyond the handshake, so the host's first bytes stay in the socket.
 */
#include "loop/loop.h"
#include "net/policy/policy.h"

struct egress;

struct egress_want {
	struct loop *loop;
	int fd;                            /* to the proxy; owned */
	const struct policy_target *proxy; /* borrowed until egress_start() returns */
	const struct host *host;           /* likewise */
	uint16_t port;
	/* Called from the loop. The callee owns fd; -1 on failure. */
	void (*done)(int fd, void *arg);
	void *arg;
};

/* NULL if there is no memory; fd is then closed. */
struct egress *egress_start(const struct egress_want *want);
void egress_cancel(struct egress *e); /* done is not called; NULL is fine */
