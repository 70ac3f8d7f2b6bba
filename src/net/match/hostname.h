// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Host names. A name is parsed once, here, from untrusted bytes (a policy, a DNS query, a
 * ClientHello, a Host field, a URL). From then on only the canonical struct is passed on: the name
 * that was judged is the name that is resolved, dialled and logged.
 *
 * Canonical: 1 to 253 bytes, labels of 1 to 63 lower-case letters, digits, '-' and '_' that neither
 * begin nor end with '-', divided by single dots, without a dot at the end. RFC 952 does not allow
 * '_', but names in use have it, and it has no special meaning in matching.
 *
 * Not names: anything whose last label is a number (inet_aton() takes "127.1", "0x7f.1" and
 * "2130706433" for addresses; addresses have a parser of their own, see net/match/host.h), and
 * letters outside ASCII, which have an "xn--" form that has to be used.
 */
#include "net/match/why.h"

#include <stdbool.h>

#define HOSTNAME_MAX  253
#define HOSTNAME_SIZE (HOSTNAME_MAX + 1)

struct hostname {
	uint8_t len;
	char text[HOSTNAME_SIZE]; /* ends in a NUL, and has no other */
};

/* Parses all len bytes. One dot at the end is dropped, capitals become lower case. */
must_check int hostname_parse(const char *text, size_t len, struct hostname *ret, const char **why);
bool hostname_is_equal(const struct hostname *a, const struct hostname *b);
int hostname_compare(const struct hostname *a, const struct hostname *b); /* for sorting */
/* "localhost" and all below it: RFC 6761 has them mean the machine itself, so none is resolved. */
bool hostname_is_local(const struct hostname *name);

/*
 * A pattern for host names in a policy:
 *	example.com        that name alone
 *	*.example.com      every name below it, at any depth, and not example.com itself
 *	a.*.example.com    exactly one label in the place of an inner star
 *	*                  every name
 * A star stands for whole labels. (E2B and Vercel read these in the same way.)
 */
struct hostname_pattern {
	struct hostname name; /* canonical, with stars; of "*" the star alone */
};

must_check int hostname_pattern_parse(const char *text, size_t len, struct hostname_pattern *ret,
                                      const char **why);
bool hostname_pattern_matches(const struct hostname_pattern *pattern, const struct hostname *name);
