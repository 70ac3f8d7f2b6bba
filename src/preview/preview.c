// SPDX-License-Identifier: Apache-2.0
/*
 * From a request to a visit: which port is meant, and may who asks come in. Paths behind the port
 * are the sandbox's own business and are passed as they are; only ours in front is read, strictly.
 *
 * A token that comes in the query is moved at once to where the browser keeps it without showing
 * it: by name into a cookie of that name alone, by path into the path.
 */
#include "base/parse.h"
#include "http/target.h"
#include "preview/inside.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PATH_START "/p/"
#define QUERY_NAME "cloche_token="
#define COOKIE_AGE "604800" /* a week; the token's own end comes first, or not */

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

static int read_word(const char *text, size_t len, char ret[ID_SIZE])
{
	if (len == 0 || len >= ID_SIZE)
		return -EINVAL;
	memcpy(ret, text, len);
	ret[len] = '\0';
	return 0;
}

/* "3000-k3v9…", the id without its kind; with it is fine too. */
static int read_label(struct visit *v, const char *label, size_t len)
{
	const char *dash = memchr(label, '-', len);
	size_t port_len = dash ? (size_t)(dash - label) : 0;
	char word[ID_SIZE];

	if (!dash || read_port(label, port_len, &v->port) < 0 ||
	    read_word(dash + 1, len - port_len - 1, word) < 0)
		return -EINVAL;
	if (strlen(word) == ID_RANDOM_LEN)
		(void)snprintf(v->id, sizeof(v->id), "sb_%.*s", ID_RANDOM_LEN, word);
	else
		(void)snprintf(v->id, sizeof(v->id), "%s", word);
	return 0;
}

/* 1: a name below the domain, 0: another. One that is below it and names no port has port 0. */
static int read_host(struct visit *v)
{
	const char *host = http_header(v->req, "Host");
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

/* "/p/ID/PORT~TOKEN" and what follows: 1 with *ret_rest, 0 if it is none of ours. */
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
	if (read_word(id, id_len, v->id) < 0 || read_port(port, port_len, &v->port) < 0)
		v->port = 0;
	if (port[port_len] == '~') {
		head_len = port_len + 1 + strcspn(port + port_len + 1, "/?");
		if (read_word(port + port_len + 1, head_len - port_len - 1, v->token) < 0)
			v->port = 0;
	}
	if (v->port)
		(void)snprintf(v->prefix, sizeof(v->prefix), "%.*s",
		               (int)(port + head_len - target), target);
	*ret_rest = port + head_len;
	return 1;
}

/* Copies path and query to v->target, a token in the query left out. */
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
			v->has_query = read_word(query + skip, len - skip, v->token) == 0;
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

static void read_cookie(struct visit *v)
{
	const char *p = http_header(v->req, "Cookie");
	size_t skip = strlen(PREVIEW_COOKIE "=");

	for (; p && *p; p += strcspn(p, ";"), p += *p == ';') {
		p += strspn(p, " ");
		if (strncmp(p, PREVIEW_COOKIE "=", skip) != 0)
			continue;
		v->has_cookie = read_word(p + skip, strcspn(p + skip, "; "), v->token) == 0;
		return;
	}
}

static void read_token(struct visit *v)
{
	const char *header = http_header(v->req, "X-Cloche-Token");

	if (v->token[0])
		return;
	if (header)
		(void)!read_word(header, strlen(header), v->token);
	else if (!v->is_by_path)
		read_cookie(v);
}

/* A page of another origin may make the browser send our cookie; then it says where it is from. */
static bool is_foreign(const struct visit *v)
{
	const char *origin = http_header(v->req, "Origin");
	const char *host = http_header(v->req, "Host");
	const char *authority = origin ? strstr(origin, "://") : NULL;

	return v->has_cookie && origin &&
	       (!authority || !host || strcasecmp(authority + 3, host) != 0);
}

/* Shows the browser where to go on, with the token put away. */
static int redirect(struct visit *v)
{
	auto_call(buf_done) struct buf text = BUF_INIT(PREVIEW_TARGET_MAX + 256);
	int r;

	if (v->is_by_path) {
		r = buf_printf(&text, PATH_START "%s/%u~%s%s%s", v->id, v->port, v->token,
		               v->target.data[0] == '/' ? "" : "/", v->target.data);
	} else {
		r = buf_printf(&text,
		               PREVIEW_COOKIE "=%s; Path=/; Max-Age=" COOKIE_AGE
		                              "; HttpOnly; SameSite=Lax%s",
		               v->token, http_is_tls(v->req) ? "; Secure" : "");
		if (r == 0)
			http_reply_header(v->req, "Set-Cookie", buf_str(&text));
		buf_truncate(&text, 0);
		if (r == 0)
			r = buf_append_str(&text, v->target.data);
	}
	if (r < 0)
		return r;
	http_reply_header(v->req, "Location", buf_str(&text));
	http_reply_header(v->req, "Cache-Control", "no-store");
	http_reply_header(v->req, "Referrer-Policy", "no-referrer");
	http_reply(v->req, 303, NULL, NULL, 0);
	return 0;
}

/* Relative links need the slash. */
static int add_slash(struct visit *v)
{
	auto_call(buf_done) struct buf text = BUF_INIT(PREVIEW_TARGET_MAX + 256);
	int r = buf_printf(&text, "%s/%s", v->prefix, v->target.data);

	if (r < 0)
		return r;
	http_reply_header(v->req, "Location", buf_str(&text));
	http_reply(v->req, 308, NULL, NULL, 0);
	return 0;
}

static bool is_page_load(const struct visit *v)
{
	enum http_method method = http_req_method(v->req);

	return (method == HTTP_GET || method == HTTP_HEAD) && !http_req_head(v->req)->is_upgrade;
}

static int visit(struct visit *v, struct err *err)
{
	struct sandbox *s = NULL;

	read_token(v);
	if (v->port && !is_foreign(v))
		s = port_find(v->preview->fleet, v->id, v->port, v->token[0] ? v->token : NULL);
	if (!s) {
		page_refused(v->req);
		return 0;
	}
	if (v->has_query && is_page_load(v))
		return redirect(v);
	if (v->is_by_path && v->target.data[0] != '/')
		return add_slash(v);
	return proxy_start(v, s, err);
}

int preview_divert(const struct preview *p, struct http_req *req, struct err *err)
{
	struct visit v = {.preview = p, .req = req, .target = BUF_INIT(PREVIEW_TARGET_MAX)};
	const char *target = http_req_head(req)->target, *rest = target;
	int r = read_host(&v);

	if (r == 0) {
		r = read_path(&v, target, &rest);
		if (r == 1)
			r = http_check_host(req, err) < 0 ? -EPERM : 1;
	}
	if (r <= 0)
		return r;
	r = read_target(&v, rest);
	if (r < 0)
		r = err_set(err, ERR_URI_TOO_LONG, 0, "the path is too long");
	else
		r = visit(&v, err);
	if (r < 0) {
		page_failed(req, err);
		r = 0;
	}
	buf_done(&v.target);
	return r < 0 ? r : 1;
}
