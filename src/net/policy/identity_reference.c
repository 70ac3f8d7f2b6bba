// SPDX-License-Identifier: Apache-2.0
#include "net/policy/identity_reference.h"

#include <string.h>
#include <strings.h>

#define SCHEME "identity://"

bool audience_is_valid(const char *text)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
		"-._~:/?#[]@!$&'()*+,;=%";
	const size_t len = strspn(text, letters);

	return len > 0 && len <= AUDIENCE_MAX && text[len] == '\0';
}

const char *identity_reference_audience(const char *text)
{
	static const char *const schemes[] = {"", "Bearer ", "JWT "};

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		const size_t len = strlen(schemes[i]);

		if (strncasecmp(text, schemes[i], len) == 0 &&
		    strncmp(text + len, SCHEME, strlen(SCHEME)) == 0 &&
		    audience_is_valid(text + len + strlen(SCHEME)))
			return text + len + strlen(SCHEME);
	}
	return NULL;
}

bool identity_reference_is_in(const char *text)
{
	return strstr(text, SCHEME) != NULL;
}

static json_t *respond(int status, const char *body)
{
	return json_pack("{s{sis{ss}ssss}}", "respond", "status", status, "headers",
	                 "cache-control", "no-store", "content_type", "text/plain", "body", body);
}

/* The clear is no risk: the connection ends at the wall of this host. */
json_t *identity_rule(const char *audience, const char *token)
{
	return json_pack("{s{s[s]sss[s]s[s]s[{ssss}]s[{ss}]}so}", "match", "domains", IDENTITY_HOST,
	                 "protocol", "http", "methods", "GET", "paths", IDENTITY_PATH, "query",
	                 "name", "audience", "value", audience, "headers", "name", IDENTITY_FIELD,
	                 "action", respond(200, token));
}

json_t *identity_last_rule(void)
{
	return json_pack(
		"{s{s[s]ss}so}", "match", "domains", IDENTITY_HOST, "protocol", "http", "action",
		respond(403, "no token: ask for GET " IDENTITY_PATH
	                     "?audience=AUDIENCE with the header " IDENTITY_FIELD
	                     ": 1, and with an audience that the policy of this sandbox names "
	                     "in identity.audiences\n"));
}
