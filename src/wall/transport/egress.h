// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The talk with a policy's proxy, on a connection to it, until it is one to the host: SOCKS5 (RFC
 * 1928, with the name and password of RFC 1929) or CONNECT of HTTP. A name is told as it is. Not a
 * byte is read beyond the talk, so what the host says first is left in the socket.
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
	/* From the loop. fd is the callee's, or -1. */
	void (*done)(int fd, void *arg);
	void *arg;
};

/* NULL: there is no room for it; fd is closed. */
struct egress *egress_start(const struct egress_want *want);
void egress_cancel(struct egress *e); /* done is not called; NULL is fine */
