// SPDX-License-Identifier: Apache-2.0
#include "net/policy/judge_private.h"

#include "base/parse.h"
#include "net/match/glob.h"
#include "net/match/regex.h"

#include <string.h>
#include <strings.h>

bool judge_request_fits(const struct judge_facts *facts)
{
	const struct judge_request *request = facts->request;
	const struct host *host = request->host;

	if (request->port != 0 && request->port != facts->port)
		return false;
	if (facts->name_state == NAME_KNOWN)
		return host->is_name && hostname_is_equal(&host->name, facts->name);
	return !host->is_name && facts->dialled && address_is_equal(&host->address, facts->dialled);
}

static bool text_matches(const struct policy_text *t, const char *text, char divider)
{
	switch (t->kind) {
	case TEXT_ANY:
		return true;
	case TEXT_EXACT:
		return strcmp(text, t->text) == 0;
	case TEXT_PREFIX:
		return strncmp(text, t->text, strlen(t->text)) == 0;
	case TEXT_PATTERN:
		return glob_matches(t->text, text, divider);
	case TEXT_REGEX:
		return regex_matches(t->regex, text);
	case TEXT_KIND_COUNT:
		break;
	}
	return false;
}

static bool has_method(const struct policy_match *m, const char *method)
{
	for (size_t i = 0; i < m->n_methods; i++)
		if (strcmp(m->methods[i], method) == 0)
			return true;
	return m->n_methods == 0;
}

static bool has_path(const struct policy_match *m, const char *path)
{
	for (size_t i = 0; i < m->n_paths; i++)
		if (text_matches(&m->paths[i], path, '/'))
			return true;
	return m->n_paths == 0;
}

static bool path_matches(const struct policy_match *m, const struct path *path, bool denies)
{
	bool strict = has_path(m, path->text);
	bool loose = path->loose ? has_path(m, path->loose) : strict;

	return denies ? strict || loose : strict && loose;
}

/* Decodes a name or value of a query. An invalid escape, or one of a NUL, stays as it is. */
static char *decode(const char *text, size_t len)
{
	char *out = xcalloc(len + 1, 1), *to = out;

	for (size_t i = 0; i < len; i++) {
		uint64_t byte = 0;

		if (text[i] == '%' && len - i > 2 && parse_hex(text + i + 1, 2, &byte) == 0 &&
		    byte != 0) {
			*to++ = (char)byte;
			i += 2;
		} else {
			*to++ = (char)(text[i] == '+' ? ' ' : text[i]);
		}
	}
	return out;
}

static bool query_has(const struct judge_request *request, const struct policy_pair *pair)
{
	const char *at = request->query;
	size_t left = request->query_len;

	while (at && left > 0) {
		const char *end = memchr(at, '&', left);
		size_t len = end ? (size_t)(end - at) : left;
		const char *equals = memchr(at, '=', len);
		size_t name_len = equals ? (size_t)(equals - at) : len;
		auto_free char *name = decode(at, name_len);
		auto_free char *value =
			equals ? decode(equals + 1, len - name_len - 1) : xstrdup("");

		if (text_matches(&pair->name, name, '\0') &&
		    text_matches(&pair->value, value, '\0'))
			return true;
		left -= end ? len + 1 : len;
		at += end ? len + 1 : len;
	}
	return false;
}

static bool headers_have(const struct judge_request *request, const struct policy_pair *pair)
{
	for (size_t i = 0; i < request->n_headers; i++) {
		auto_free char *name = xstrdup(request->headers[i].name);

		for (char *p = name; *p; p++)
			if (*p >= 'A' && *p <= 'Z')
				*p = (char)(*p + ('a' - 'A'));
		if (text_matches(&pair->name, name, '\0') &&
		    text_matches(&pair->value, request->headers[i].value, '\0'))
			return true;
	}
	return false;
}

bool judge_request_matches(const struct policy_match *m, const struct judge_request *request,
                           bool denies)
{
	if (!has_method(m, request->method) || !path_matches(m, request->path, denies))
		return false;
	for (size_t i = 0; i < m->n_query; i++)
		if (!query_has(request, &m->query[i]))
			return false;
	for (size_t i = 0; i < m->n_headers; i++)
		if (!headers_have(request, &m->headers[i]))
			return false;
	return true;
}
