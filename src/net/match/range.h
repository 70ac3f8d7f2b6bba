// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which addresses are public, and which are closed: the host itself, its neighbours, the cloud's
 * metadata services, and the special ranges of both address families. A general permission of a
 * policy ("everything", a name, 0.0.0.0/0) never covers a closed address. The policy must name a
 * range inside the closed one; for some it must name the exact address, and some cannot be opened
 * at all. The host itself, its link and metadata services belong to the operator: a policy opens
 * them only if the operator allows it.
 */
#include "net/match/address.h"

enum range_kind {
	RANGE_PUBLIC,
	RANGE_UNSPECIFIED, /* 0.0.0.0/8, ::; Linux dials itself there */
	RANGE_LOOPBACK,
	RANGE_PRIVATE, /* RFC 1918, unique local, site local */
	RANGE_LINK_LOCAL,
	RANGE_METADATA, /* where clouds give credentials to any program on the machine */
	RANGE_SHARED,   /* carrier-grade NAT, 100.64.0.0/10 */
	RANGE_MULTICAST,
	RANGE_BROADCAST,
	RANGE_DOCUMENTATION,
	RANGE_BENCHMARK,
	RANGE_TRANSITION, /* IPv6 with an embedded IPv4 address: NAT64, 6to4, Teredo and others */
	RANGE_RESERVED,
	RANGE_HOST,     /* an address of this machine, whatever its kind */
	RANGE_OPERATOR, /* closed by the operator */
	RANGE_KIND_COUNT,
};

/* What is special about addresses on this host. Borrowed. */
struct range_site {
	const struct cidr *own; /* the host's addresses and those of other sandboxes */
	size_t n_own;
	const struct cidr *never; /* no policy reaches these, whatever it names */
	size_t n_never;
	const struct cidr *may_open; /* the operator's addresses that a policy may name */
	size_t n_may_open;
	const uint16_t
		*ports; /* the daemon's own: closed on every address of the host, lent or not */
	size_t n_ports;
};

const char *range_kind_name(enum range_kind kind); /* "link_local" */
/* The kind of the address, or of the IPv4 address embedded in it: the first of the two that is not
 * public. */
enum range_kind range_kind_of(const struct range_site *site, const struct address *a);
/*
 * Whether a rule with these ranges may reach a: a is public, or one of them names it. If a embeds
 * an IPv4 address, a must be named, and the IPv4 address must be public or named too.
 */
bool range_is_open(const struct range_site *site, const struct address *a, const struct cidr *named,
                   size_t n_named);
/* Whether the daemon itself listens there. No policy opens that. */
bool range_is_daemon(const struct range_site *site, const struct address *a, uint16_t port);
