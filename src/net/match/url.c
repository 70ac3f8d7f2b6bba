// SPDX-License-Identifier: Apache-2.0
#include "net/match/url.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

static const struct {
	const char *name;
	uint16_t port;
	bool has_path;
} schemes[] = {
	[URL_HTTP] = {"http", 80, true},
	[URL_HTTPS] = {"https", 443, true},
	[URL_TCP] = {"tcp", 0, false},
	[URL_SOCKS5] = {"socks5", 1080, false},
};
static_assert(ARRAY_SIZE(schemes) == URL_SCHEME_COUNT, "a scheme has no row");

/* The bytes of "SCHEME://", or 0. */
static size_t find_scheme(const char *text, size_t len, enum url_scheme *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		size_t n = strlen(schemes[i].name);

		if (len >= n + 3 && strncasecmp(text, schemes[i].name, n) == 0 &&
		    memcmp(text + n, "://", 3) == 0) {
			*ret = (enum url_scheme)i;
			return n + 3;
		}
	}
	return 0;
}

static size_t find_any(const char *text, size_t len, const char *bytes)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] != '\0' && strchr(bytes, text[i]))
			return i;
	return len;
}

int url_parse(const char *text, size_t len, struct url *ret, const char **why)
{
	struct url u = {.path = "/", .path_len = 1};
	size_t n = find_scheme(text, len, &u.scheme), host_len, rest_len;
	const char *rest;

	if (n == 0)
		return refuse_as(why, "does not begin with http://, https://, tcp:// or socks5://");
	for (size_t i = 0; i < len; i++)
		if (text[i] <= 0x20 || text[i] >= 0x7f || text[i] == '#')
			return refuse_as(why, "has a character that must be encoded");
	host_len = find_any(text + n, len - n, "/?");
	if (memchr(text + n, '@', host_len))
		return refuse_as(why, "has a user in it");
	if (authority_parse(text + n, host_len, &u.host, &u.port, why) < 0)
		return -EINVAL;
	if (u.port == 0)
		u.port = schemes[u.scheme].port;
	if (u.port == 0)
		return refuse_as(why, "has no port");
	rest = text + n + host_len;
	rest_len = len - n - host_len;
	if (rest_len > 0 && !schemes[u.scheme].has_path)
		return refuse_as(why, "has a path, which its scheme does not have");
	n = find_any(rest, rest_len, "?");
	if (n > 0) {
		u.path = rest;
		u.path_len = n;
	}
	if (n < rest_len) {
		u.query = rest + n + 1;
		u.query_len = rest_len - n - 1;
	}
	*ret = u;
	return 0;
}
