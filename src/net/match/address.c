// SPDX-License-Identifier: Apache-2.0
#include "net/match/address.h"

#include "base/parse.h"

#include <arpa/inet.h>
#include <string.h>

struct address address_from_v4(const uint8_t bytes[4])
{
	struct address a = {.bits = 32};

	memcpy(a.bytes, bytes, 4);
	return a;
}

struct address address_from_v6(const uint8_t bytes[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct address a = {.bits = 128};

	if (memcmp(bytes, mapped, sizeof(mapped)) == 0)
		return address_from_v4(bytes + 12);
	memcpy(a.bytes, bytes, 16);
	return a;
}

int address_parse(const char *text, size_t len, struct address *ret, const char **why)
{
	char copy[ADDRESS_SIZE];
	uint8_t bytes[16];

	if (len == 0 || len >= sizeof(copy) || memchr(text, '\0', len))
		return refuse_as(why, "is not an address");
	memcpy(copy, text, len);
	copy[len] = '\0';
	/* glibc's inet_pton() takes the full forms only, unlike inet_aton(). */
	if (inet_pton(AF_INET, copy, bytes) == 1)
		*ret = address_from_v4(bytes);
	else if (inet_pton(AF_INET6, copy, bytes) == 1)
		*ret = address_from_v6(bytes);
	else
		return refuse_as(why, "is not an address");
	return 0;
}

void address_format(const struct address *a, char ret[ADDRESS_SIZE])
{
	if (!inet_ntop(a->bits == 32 ? AF_INET : AF_INET6, a->bytes, ret, ADDRESS_SIZE))
		abort();
}

bool address_is_equal(const struct address *a, const struct address *b)
{
	return a->bits == b->bits && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* a with all bits after the prefix cleared. */
static struct address cut(const struct address *a, unsigned prefix)
{
	struct address c = {.bits = a->bits};

	memcpy(c.bytes, a->bytes, prefix / 8);
	if (prefix % 8)
		c.bytes[prefix / 8] = (uint8_t)(a->bytes[prefix / 8] & (0xff00U >> prefix % 8));
	return c;
}

int cidr_parse(const char *text, size_t len, struct cidr *ret, const char **why)
{
	const char *slash = memchr(text, '/', len);
	size_t address_len = slash ? (size_t)(slash - text) : len;
	char digits[4] = "";
	struct address a, first;
	uint64_t prefix;

	if (memmem(text, len, "://", 3))
		return refuse_as(why, "is a URL: give its host name alone, as in example.com");
	if (address_parse(text, address_len, &a, NULL) < 0)
		return refuse_as(why, "is neither an address nor a range such as 10.0.0.0/8");
	if (a.bits == 32 && memchr(text, ':', address_len))
		return refuse_as(why, "is an IPv4 address in IPv6 clothes: write the IPv4 form");
	prefix = a.bits;
	if (slash) {
		size_t n = len - address_len - 1;

		if (n >= sizeof(digits))
			return refuse_as(why, "has a prefix that is no number of bits");
		memcpy(digits, slash + 1, n);
		if (memchr(digits, '\0', n) || parse_u64(digits, a.bits, &prefix) < 0)
			return refuse_as(why, "has a prefix that is no number of bits");
	}
	first = cut(&a, (unsigned)prefix);
	if (!address_is_equal(&first, &a))
		return refuse_as(why, "has bits set behind its prefix: write the range's first "
		                      "address, or make the prefix longer");
	*ret = (struct cidr){first, (uint8_t)prefix};
	return 0;
}

void cidr_format(const struct cidr *c, char ret[CIDR_SIZE])
{
	char first[ADDRESS_SIZE];

	address_format(&c->first, first);
	(void)snprintf(ret, CIDR_SIZE, "%s/%u", first, c->prefix);
}

bool cidr_has(const struct cidr *c, const struct address *a)
{
	struct address first;

	if (c->first.bits != a->bits)
		return false;
	first = cut(a, c->prefix);
	return address_is_equal(&first, &c->first);
}
