// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Names of databases. libpq waits for the resolver, which the loop must not; and the member's root
 * directory has none of the files that a resolver reads. So a child, made before the member is
 * confined, does nothing else. It runs as nobody, and ends with the member.
 */
#include "loop/loop.h"

#define RESOLVER_ADDRESSES_MAX 8
#define RESOLVER_TEXT          48

struct resolved {
	uint32_t n;
	char addresses[RESOLVER_ADDRESSES_MAX][RESOLVER_TEXT];
	char why[96]; /* where n is 0 */
};

struct name_resolver;
typedef void (*resolved_fn)(const struct resolved *result, void *arg);

/* Forks: nothing may run in this process yet. */
must_check int name_resolver_start(int *ret_fd, struct err *err);
must_check int name_resolver_new(struct loop *loop, int fd, struct name_resolver **ret);
/* Asks for one name; calls are answered in their order. -EAGAIN: too many wait. Once the resolver
 * is lost each call fails with -EPIPE. */
must_check int name_resolver_ask(struct name_resolver *r, const char *host, resolved_fn fn,
                                 void *arg);
