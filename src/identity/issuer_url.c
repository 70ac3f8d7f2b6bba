// SPDX-License-Identifier: Apache-2.0
/* Discovery appends a path to the issuer's URL, and verifiers compare the URL letter by letter. */
#include "identity/identity.h"
#include "net/match/range.h"
#include "net/match/url.h"

#include <string.h>

#define ISSUER_MAX 255

static bool is_this_host(const struct host *host)
{
	const struct range_site none = {0};

	return host->is_name ? hostname_is_local(&host->name)
	                     : range_kind_of(&none, &host->address) == RANGE_LOOPBACK;
}

int identity_check_issuer(const char *url, const char *field, struct err *err)
{
	const size_t len = strlen(url);
	const char *why = NULL;
	struct url u;

	if (len > ISSUER_MAX)
		return err_field(err, field, "is longer than %d bytes", ISSUER_MAX);
	if (url_parse(url, len, &u, &why) < 0)
		return err_field(err, field, "%s", why);
	if (u.scheme != URL_HTTPS && !(u.scheme == URL_HTTP && is_this_host(&u.host)))
		return err_field(err, field,
		                 "must begin with https://: clouds take no other (http:// is for "
		                 "tests on a loopback address)");
	if (u.query)
		return err_field(err, field, "must have no query");
	if (url[len - 1] == '/')
		return err_field(err, field,
		                 "must not end with '/': verifiers compare it letter "
		                 "by letter");
	return 0;
}
