// SPDX-License-Identifier: Apache-2.0
#pragma once
/* URLs in policies, and in questions about policies: SCHEME://HOST[:PORT][/PATH][?QUERY].
 */
#include "net/match/host.h"

enum url_scheme {
	URL_HTTP,
	URL_HTTPS,
	URL_TCP,    /* any protocol; has a port and no path */
	URL_SOCKS5, /* of a proxy; likewise */
	URL_SCHEME_COUNT,
};

struct url {
	enum url_scheme scheme;
	struct host host;
	uint16_t port; /* the scheme's where none is said */
	/* Borrowed from the text, neither decoded nor ended by a NUL; "/" where the path is absent.
	 */
	const char *path;
	size_t path_len;
	const char *query; /* without its '?', or NULL */
	size_t query_len;
};

/* Users and fragments are refused: the wall has no use for them. */
must_check int url_parse(const char *text, size_t len, struct url *ret, const char **why);
