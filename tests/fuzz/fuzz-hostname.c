// SPDX-License-Identifier: Apache-2.0
/*
 * Names, addresses, authorities and URLs. The input is a text, or two divided by a newline: a
 * pattern and a name. What is accepted is written, read again and must be the same, and the labels'
 * matcher must agree with the comparison of suffixes that it replaces.
 */
#include "net/match/url.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 1024

static bool is_canonical(const struct hostname *name)
{
	for (size_t i = 0; i < name->len; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.", name->text[i]))
			return false;
	return name->len > 0 && name->text[name->len] == '\0' && name->text[0] != '.' &&
	       name->text[name->len - 1] != '.' && !strstr(name->text, "..");
}

static void try_name(const char *text, size_t len)
{
	struct hostname name, again;
	const char *why = NULL;

	if (hostname_parse(text, len, &name, &why) < 0) {
		assert(why);
		return;
	}
	assert(is_canonical(&name));
	assert(strlen(name.text) == name.len);
	assert(name.len == len || (name.len + 1U == len && text[len - 1] == '.'));
	assert(hostname_parse(name.text, name.len, &again, NULL) == 0);
	assert(hostname_is_equal(&name, &again));
}

static void try_authority(const char *text, size_t len)
{
	struct host host, again;
	char out[HOST_SIZE];
	uint16_t port;

	if (authority_parse(text, len, &host, &port, NULL) < 0)
		return;
	host_format(&host, out);
	assert(host_parse(out, strlen(out), &again, NULL) == 0);
	assert(host_is_equal(&host, &again));
}

static void try_range(const char *text, size_t len)
{
	struct cidr range, again;
	char out[CIDR_SIZE];

	if (cidr_parse(text, len, &range, NULL) < 0)
		return;
	cidr_format(&range, out);
	assert(cidr_parse(out, strlen(out), &again, NULL) == 0);
	assert(address_is_equal(&range.first, &again.first) && range.prefix == again.prefix);
	assert(cidr_has(&range, &range.first));
}

static void try_url(const char *text, size_t len)
{
	struct url url;

	if (url_parse(text, len, &url, NULL) < 0)
		return;
	assert(url.port > 0 && url.path_len > 0);
	assert(!url.host.is_name || is_canonical(&url.host.name));
}

static void try_pattern(const char *pattern, size_t pattern_len, const char *text, size_t len)
{
	struct hostname_pattern p;
	struct hostname name;
	const char *rest;
	bool wanted;

	if (hostname_pattern_parse(pattern, pattern_len, &p, NULL) < 0 ||
	    hostname_parse(text, len, &name, NULL) < 0)
		return;
	rest = p.name.text + (p.name.text[0] == '*');
	if (strchr(rest, '*'))
		return; /* stars inside: no simpler reading to compare with */
	if (rest == p.name.text)
		wanted = strcmp(name.text, rest) == 0;
	else
		wanted = name.len > strlen(rest) &&
		         strcmp(name.text + name.len - strlen(rest), rest) == 0;
	assert(hostname_pattern_matches(&p, &name) == wanted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	const char *line = size > 0 ? memchr(text, '\n', size) : NULL;

	if (size == 0 || size > INPUT_MAX)
		return 0;
	if (line) {
		size_t n = (size_t)(line - text);

		try_pattern(text, n, line + 1, size - n - 1);
		return 0;
	}
	try_name(text, size);
	try_authority(text, size);
	try_range(text, size);
	try_url(text, size);
	return 0;
}
