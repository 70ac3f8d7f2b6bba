// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Addresses and ranges of them. Each address has one form: an IPv4 address that came as IPv6
 * ("::ffff:127.0.0.1"), as sockets and resolvers give it, is stored as the IPv4 address.
 */
#include "net/match/why.h"

#include <stdbool.h>

#define ADDRESS_SIZE 46 /* of the text, with its NUL */
#define CIDR_SIZE    (ADDRESS_SIZE + 4)

struct address {
	uint8_t bits;      /* 32 or 128 */
	uint8_t bytes[16]; /* in network order; of IPv4 the first four, then zeros */
};

struct cidr {
	struct address first; /* no bit is set behind the prefix */
	uint8_t prefix;       /* bits */
};

struct address address_from_v4(const uint8_t bytes[4]);
struct address address_from_v6(const uint8_t bytes[16]); /* unmaps ::ffff:0:0/96 */
/* Dotted quads of four decimal numbers without leading zeros; IPv6 without brackets or zone. */
must_check int address_parse(const char *text, size_t len, struct address *ret, const char **why);
void address_format(const struct address *a, char ret[ADDRESS_SIZE]);
bool address_is_equal(const struct address *a, const struct address *b);

/* "10.0.0.0/8"; a bare address is a range of one. Bits after the prefix are refused. */
must_check int cidr_parse(const char *text, size_t len, struct cidr *ret, const char **why);
void cidr_format(const struct cidr *c, char ret[CIDR_SIZE]);
bool cidr_has(const struct cidr *c, const struct address *a);
