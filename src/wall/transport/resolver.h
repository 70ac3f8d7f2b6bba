// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The wall's DNS client for the host's recursive resolvers. It asks by UDP, each question with its
 * own socket, port and id, and by TCP if the answer does not fit. Answers are kept for their TTL,
 * at most RESOLVER_TTL_MAX_S. A pending question is not asked twice.
 */
#include "loop/loop.h"
#include "net/packet/dns.h"

#include <sys/socket.h>

#define RESOLVER_SERVERS_MAX 3
#define RESOLVER_TTL_MAX_S   300

struct resolver;
struct resolver_ask;

struct resolver_config {
	struct loop *loop;
	struct sockaddr_storage servers[RESOLVER_SERVERS_MAX];
	size_t n_servers;
	uint64_t patience_us; /* with one try; 0 = the usual */
};

/* Called from the loop, never from inside resolver_ask(). response is NULL if there was no answer;
 * it is borrowed for the call. */
typedef void (*resolver_fn)(const struct dns_response *response, void *arg);

struct resolver *resolver_new(const struct resolver_config *config);
void resolver_free(struct resolver *r); /* no callback is called; NULL is fine */
/* type: DNS_A or DNS_AAAA. */
struct resolver_ask *resolver_ask(struct resolver *r, const struct hostname *name,
                                  enum dns_type type, resolver_fn fn, void *arg);
void resolver_cancel(struct resolver_ask *ask); /* fn is not called; NULL is fine */
/* "1.2.3.4", "1.2.3.4:53", "[::1]:53". */
must_check int resolver_parse_server(const char *text, struct sockaddr_storage *ret,
                                     const char **why);
