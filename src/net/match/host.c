// SPDX-License-Identifier: Apache-2.0
#include "net/match/host.h"

#include "base/parse.h"

#include <string.h>

int host_parse(const char *text, size_t len, struct host *ret, const char **why)
{
	struct host h = {0};

	if (len > 0 && text[0] == '[') {
		if (len < 2 || text[len - 1] != ']' || !memchr(text, ':', len))
			return refuse_as(why, "is not an IPv6 address in brackets");
		if (address_parse(text + 1, len - 2, &h.address, why) < 0)
			return -EINVAL;
	} else if (memchr(text, ':', len) || address_parse(text, len, &h.address, NULL) < 0) {
		h.is_name = true;
		if (hostname_parse(text, len, &h.name, why) < 0)
			return -EINVAL;
	}
	*ret = h;
	return 0;
}

static int parse_port(const char *text, size_t len, uint16_t *ret)
{
	char digits[6] = "";
	uint64_t port;

	if (len >= sizeof(digits) || memchr(text, '\0', len))
		return -EINVAL;
	memcpy(digits, text, len);
	if (parse_u64(digits, UINT16_MAX, &port) < 0 || port == 0)
		return -EINVAL;
	*ret = (uint16_t)port;
	return 0;
}

int authority_parse(const char *text, size_t len, struct host *ret, uint16_t *ret_port,
                    const char **why)
{
	const char *bracket = len > 0 && text[0] == '[' ? memchr(text, ']', len) : NULL;
	size_t from = bracket ? (size_t)(bracket - text) : 0;
	const char *colon = memchr(text + from, ':', len - from);
	size_t host_len = colon ? (size_t)(colon - text) : len;
	uint16_t port = 0;

	if (colon && parse_port(colon + 1, len - host_len - 1, &port) < 0)
		return refuse_as(why, "has a port that is not a number from 1 to 65535");
	if (host_parse(text, host_len, ret, why) < 0)
		return -EINVAL;
	*ret_port = port;
	return 0;
}

void host_format(const struct host *host, char ret[HOST_SIZE])
{
	char address[ADDRESS_SIZE];

	if (host->is_name) {
		memcpy(ret, host->name.text, (size_t)host->name.len + 1);
		return;
	}
	address_format(&host->address, address);
	(void)snprintf(ret, HOST_SIZE, host->address.bits == 128 ? "[%s]" : "%s", address);
}

bool host_is_equal(const struct host *a, const struct host *b)
{
	if (a->is_name != b->is_name)
		return false;
	return a->is_name ? hostname_is_equal(&a->name, &b->name)
	                  : address_is_equal(&a->address, &b->address);
}

bool host_is_loopback(const struct host *host)
{
	static const uint8_t v6[16] = {[15] = 1};

	if (host->is_name)
		return strcmp(host->name.text, "localhost") == 0;
	return host->address.bits == 32 ? host->address.bytes[0] == 127
	                                : memcmp(host->address.bytes, v6, sizeof(v6)) == 0;
}
