// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A host: a name or an address. An authority is a host with an optional port. */
#include "net/match/address.h"
#include "net/match/hostname.h"

struct host {
	bool is_name;
	struct hostname name; /* if is_name */
	struct address address;
};

#define HOST_SIZE (HOSTNAME_SIZE + 2)

/* "example.com", "192.0.2.1", "[2001:db8::1]". */
must_check int host_parse(const char *text, size_t len, struct host *ret, const char **why);
/* "host" or "host:port", as in Host fields and URLs. *ret_port is 0 if there is no port. */
must_check int authority_parse(const char *text, size_t len, struct host *ret, uint16_t *ret_port,
                               const char **why);
void host_format(const struct host *host, char ret[HOST_SIZE]); /* IPv6 in brackets */
bool host_is_equal(const struct host *a, const struct host *b);
bool host_is_loopback(const struct host *host); /* this machine itself, by its address or name */
