// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Makes a connected socket from a name or address that was judged. A name is resolved here; the
 * caller judges each of its addresses, and exactly that address is dialled: IPv4 first, then IPv6,
 * until one answers. With a proxy, the proxy's name is resolved and the proxy's address is judged;
 * the host's name goes to the proxy unresolved.
 */
#include "net/policy/policy.h"
#include "wall/transport/resolver.h"

struct reach;

enum reach_result {
	REACH_OK,
	REACH_NO_ADDRESS, /* the name has none, or nobody could tell */
	REACH_DENIED,     /* it has, and none may be dialled */
	REACH_FAILED,     /* none answers */
	REACH_REFUSED,    /* the proxy does not let through */
};

struct reach_want {
	struct loop *loop;
	struct resolver *resolver;
	const struct hostname *name; /* NULL: the address is dialled. Copied */
	struct address address;
	uint16_t port;
	const struct policy_target *proxy; /* NULL: none. Borrowed until done */
	/* Called for each address of the name or proxy before it is dialled. */
	bool (*may_dial)(const struct address *a, void *arg);
	/* Called from the loop. The callee owns fd, -1 unless REACH_OK; address is that of the last
	 * try.
	 */
	void (*done)(enum reach_result result, int fd, const struct address *address, void *arg);
	void *arg;
};

struct reach *reach_start(const struct reach_want *want);
void reach_cancel(struct reach *r); /* done is not called; NULL is fine */
