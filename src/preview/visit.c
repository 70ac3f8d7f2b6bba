// SPDX-License-Identifier: Apache-2.0
/*
 * Finds out from Host, target and cookies which port is meant, and with what token. Only our own
 * prefix of the path is parsed, strictly; the rest belongs to the sandbox and is passed on
 * unchanged.
 */
#include "base/parse.h"
#include "http/cookie.h"
#include "http/target.h"
#include "preview/preview_private.h"

#include <stdio.h>
#include <string.h>

#define PATH_START "/p/"
#define QUERY_NAME "cloche_token="

/* "3000" */
static int read_port(const char *text, size_t len, uint16_t *ret)
{
	char digits[6];
	uint64_t value;

	if (len == 0 || len >= sizeof(digits) || text[0] == '0')
		return -EINVAL;
	memcpy(digits, text, len);
	digits[len] = '\0';
	if (parse_u64(digits, UINT16_MAX, &value) < 0 || value == 0)
		return -EINVAL;
	*ret = (uint16_t)value;
	return 0;
}

int visit_read_token(const char *text, size_t len, char ret[ID_SIZE])
{
	if (len == 0 || len >= ID_SIZE)
		return -EINVAL;
	memcpy(ret, text, len);
	ret[len] = '\0';
	return 0;
}

/* "3000-k3v9…": the id without its kind, or with it. */
static int read_label(struct visit *v, const char *label, size_t len)
{
	const char *dash = memchr(label, '-', len);
	size_t port_len = dash ? (size_t)(dash - label) : 0;
	char word[ID_SIZE];

	if (!dash || read_port(label, port_len, &v->port) < 0 ||
	    visit_read_token(dash + 1, len - port_len - 1, word) < 0)
		return -EINVAL;
	if (strlen(word) == ID_RANDOM_LEN)
		(void)snprintf(v->id, sizeof(v->id), "sb_%.*s", ID_RANDOM_LEN, word);
	else
		(void)snprintf(v->id, sizeof(v->id), "%s", word);
	return 0;
}

/* Returns 1 for a name below the domain, 0 for another. A name below it that has no port gives port
 * 0. */
static int read_host(struct visit *v, const char *host)
{
	char name[HTTP_HOST_SIZE];
	size_t len, tail;
	unsigned port;

	if (!v->preview->domain || !host || http_host_parse(host, name, &port) < 0)
		return 0;
	for (char *p = name; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p += 'a' - 'A';
	len = strlen(name);
	tail = strlen(v->preview->domain);
	if (len <= tail + 1 || name[len - tail - 1] != '.' ||
	    strcmp(name + len - tail, v->preview->domain) != 0)
		return 0;
	if (read_label(v, name, len - tail - 1) < 0)
		v->port = 0;
	return 1;
}

/* Parses "/p/ID/PORT~TOKEN". Returns 1 with the rest in *ret_rest, 0 if the path is not ours. */
static int read_path(struct visit *v, const char *target, const char **ret_rest)
{
	const char *id = target + strlen(PATH_START), *port;
	size_t id_len, port_len, head_len;

	if (strncmp(target, PATH_START, strlen(PATH_START)) != 0)
		return 0;
	v->is_by_path = true;
	id_len = strcspn(id, "/?");
	port = id + id_len + (id[id_len] == '/');
	port_len = strcspn(port, "/?~");
	head_len = port_len;
	if (visit_read_token(id, id_len, v->id) < 0 || read_port(port, port_len, &v->port) < 0)
		v->port = 0;
	if (port[port_len] == '~') {
		head_len = port_len + 1 + strcspn(port + port_len + 1, "/?");
		if (visit_read_token(port + port_len + 1, head_len - port_len - 1, v->token) < 0)
			v->port = 0;
	}
	if (v->port)
		(void)snprintf(v->prefix, sizeof(v->prefix), "%.*s",
		               (int)(port + head_len - target), target);
	*ret_rest = port + head_len;
	return 1;
}

/* Copies path and query to v->target, without a token in the query. */
static int read_target(struct visit *v, const char *rest)
{
	size_t path_len = strcspn(rest, "?");
	const char *query = rest[path_len] ? rest + path_len + 1 : NULL;
	char separator = '?';
	int r = buf_append(&v->target, rest, path_len);

	while (r == 0 && query) {
		size_t len = strcspn(query, "&");
		size_t skip = strlen(QUERY_NAME);

		if (len > skip && strncmp(query, QUERY_NAME, skip) == 0) {
			v->has_query = visit_read_token(query + skip, len - skip, v->token) == 0;
		} else {
			r = buf_append(&v->target, &separator, 1);
			if (r == 0)
				r = buf_append(&v->target, query, len);
			separator = '&';
		}
		query = query[len] ? query + len + 1 : NULL;
	}
	return r == 0 ? buf_append(&v->target, "", 1) : r; /* a string */
}

int visit_read(struct visit *v, const char *host, const char *target)
{
	const char *rest = target;
	int r = read_host(v, host);

	if (r == 0)
		r = read_path(v, target, &rest);
	if (r == 0)
		return 0;
	r = read_target(v, rest);
	return r < 0 ? r : 1;
}

bool visit_next_cookie(const char **rest, char ret[ID_SIZE])
{
	struct cookie cookie;

	while (cookie_next(rest, PREVIEW_COOKIE, &cookie))
		if (visit_read_token(cookie.value, cookie.len, ret) == 0)
			return true;
	return false;
}
