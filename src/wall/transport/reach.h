// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * From a name or an address that was judged to a connected socket. A name is resolved here, each
 * of its addresses is judged by whoever asks, and exactly that address is then dialled: IPv4 first,
 * then IPv6, until one answers. Through a proxy it is the proxy's name that is resolved and the
 * proxy's address that is judged; the host's goes to the proxy as it is.
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
	/* Of each address that was found, or is the proxy's, before it is dialled. */
	bool (*may_dial)(const struct address *a, void *arg);
	/* From the loop. fd is the callee's, -1 unless REACH_OK; address is that of the last try.
	 */
	void (*done)(enum reach_result result, int fd, const struct address *address, void *arg);
	void *arg;
};

struct reach *reach_start(const struct reach_want *want);
void reach_cancel(struct reach *r); /* done is not called; NULL is fine */
