// SPDX-License-Identifier: Apache-2.0
/*
 * Refuses requests that a server could understand differently than the judge: a Host field twice or
 * not canonical, a target that names another host, "Connection" that asks for another field to be
 * dropped on the way, methods that answer with the request itself (TRACE) or leave HTTP (CONNECT),
 * and changes to any other protocol than WebSocket (RFC 6455).
 */
#include "wall/proxy_head.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#define SCHEME  "http://"
#define UPGRADE "Connection: Upgrade\r\nUpgrade: websocket\r\n"

enum { BAD_REQUEST = 400, METHOD_NOT_ALLOWED = 405, NOT_IMPLEMENTED = 501 };

static int refuse(int status, const char *words, const char **why)
{
	*why = words;
	return status;
}

/* Fields of one connection only, which are never sent on. Framing and Host are written anew. */
static bool is_ours(const char *name)
{
	static const char *const names[] = {
		"connection", "keep-alive",     "proxy-connection",  "proxy-authorization",
		"te",         "trailer",        "transfer-encoding", "upgrade",
		"host",       "content-length", "http2-settings",    "proxy-authenticate",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool is_connection_word(const char *word, size_t len)
{
	static const char *const words[] = {"close", "keep-alive", "te", "upgrade"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i]) == len && strncasecmp(word, words[i], len) == 0)
			return true;
	return len == 0;
}

static bool is_connection_plain(const char *list)
{
	while (*list) {
		size_t len;

		list += strspn(list, " \t,");
		len = strcspn(list, " \t,");
		if (!is_connection_word(list, len))
			return false;
		list += len;
	}
	return true;
}

static bool is_websocket(const struct http_head *h)
{
	return h->is_upgrade && h->minor > 0 && strcmp(h->method, "GET") == 0 &&
	       h->framing == HTTP_NO_BODY && http_head_count(h, "upgrade") == 1 &&
	       strcasecmp(http_head_find(h, "upgrade"), "websocket") == 0;
}

static int check_fields(const struct http_head *h, const char **why)
{
	if (strcmp(h->method, "TRACE") == 0 || strcmp(h->method, "CONNECT") == 0)
		return refuse(METHOD_NOT_ALLOWED, "this method does not pass the wall", why);
	if (http_head_find(h, "http2-settings") ||
	    (http_head_find(h, "upgrade") && !is_websocket(h)))
		return refuse(NOT_IMPLEMENTED, "of all upgrades only WebSocket passes the wall",
		              why);
	for (size_t i = 0; i < h->n_fields; i++) {
		struct http_field f = http_head_field(h, i);

		if (strcasecmp(f.name, "connection") == 0 && !is_connection_plain(f.value))
			return refuse(BAD_REQUEST, "its Connection names other fields", why);
	}
	return 0;
}

/* *ret_path is the rest of the target after an authority. */
static int read_target_host(const char *target, struct proxy_request *ret, bool *ret_has_host,
                            const char **ret_path)
{
	const char *authority, *end;

	*ret_has_host = false;
	*ret_path = target;
	if (strncasecmp(target, SCHEME, strlen(SCHEME)) != 0)
		return 0;
	authority = target + strlen(SCHEME);
	end = authority + strcspn(authority, "/?");
	*ret_has_host = true;
	*ret_path = end;
	return authority_parse(authority, (size_t)(end - authority), &ret->host, &ret->port, NULL);
}

static int read_host(const struct http_head *h, struct proxy_request *ret, const char **ret_path,
                     const char **why)
{
	const char *field = http_head_find(h, "host");
	struct proxy_request said = {0};
	bool has_host;

	if (http_head_count(h, "host") > 1)
		return refuse(BAD_REQUEST, "it has two Host fields", why);
	if (read_target_host(h->target, ret, &has_host, ret_path) < 0)
		return refuse(BAD_REQUEST, "its target names no host", why);
	if (!field)
		return has_host && h->minor == 0 ? 0 : refuse(BAD_REQUEST, "it has no Host", why);
	if (authority_parse(field, strlen(field), &said.host, &said.port, NULL) < 0)
		return refuse(BAD_REQUEST, "its Host is not a host", why);
	if (has_host && (!host_is_equal(&said.host, &ret->host) || said.port != ret->port))
		return refuse(BAD_REQUEST, "its target and its Host differ", why);
	ret->host = said.host;
	ret->port = said.port;
	return 0;
}

static int read_path(const char *text, struct proxy_request *ret, const char **why)
{
	size_t len = strcspn(text, "?");

	if (strcmp(text, "*") == 0)
		return refuse(BAD_REQUEST, "a target of '*' does not pass the wall", why);
	ret->query = text[len] == '?' ? text + len + 1 : NULL;
	if (path_parse(len > 0 ? text : "/", len > 0 ? len : 1, &ret->path, NULL) < 0)
		return refuse(BAD_REQUEST, "its path has no one reading", why);
	return 0;
}

int proxy_request_read(const struct http_head *h, struct proxy_request *ret, const char **why)
{
	const char *path = NULL;
	int status = check_fields(h, why);

	*ret = (struct proxy_request){0};
	if (status == 0)
		status = read_host(h, ret, &path, why);
	if (status == 0)
		status = read_path(path, ret, why);
	if (status != 0)
		return status;
	ret->is_upgrade = is_websocket(h);
	for (size_t i = 0; i < h->n_fields; i++) {
		struct http_field f = http_head_field(h, i);

		ret->headers[i] = (struct judge_header){f.name, f.value};
	}
	ret->judge = (struct judge_request){
		.method = h->method,
		.host = &ret->host,
		.port = ret->port,
		.path = &ret->path,
		.query = ret->query,
		.query_len = ret->query ? strlen(ret->query) : 0,
		.headers = ret->headers,
		.n_headers = h->n_fields,
	};
	return 0;
}

void proxy_request_done(struct proxy_request *r)
{
	path_done(&r->path);
	*r = (struct proxy_request){0};
}

/* Fields that the wall sets when it forwards. */
static bool is_forwarding(const char *name)
{
	static const char *const names[] = {"forwarded",         "x-forwarded-for",
	                                    "x-forwarded-host",  "x-forwarded-port",
	                                    "x-forwarded-proto", "x-cloche-sandbox"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Fields that let a server encode its reply or send a part of it. */
static bool is_choice(const char *name)
{
	static const char *const names[] = {"accept-encoding", "range", "if-range",
	                                    "grpc-accept-encoding", "connect-accept-encoding"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool is_replaced(const char *name, const struct proxy_rewrite *how)
{
	for (size_t i = 0; i < how->n_set; i++)
		if (strcasecmp(how->set[i].name, name) == 0)
			return true;
	return (how->forward && is_forwarding(name)) || (how->is_plain && is_choice(name));
}

static int write_fields(struct buf *out, const struct http_head *h, const struct proxy_rewrite *how)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < h->n_fields; i++) {
		struct http_field f = http_head_field(h, i);

		if (!is_ours(f.name) && !is_replaced(f.name, how))
			r = http_encode_field(out, f.name, f.value);
	}
	for (size_t i = 0; r == 0 && i < how->n_set; i++)
		r = http_encode_field(out, how->set[i].name, how->set[i].value);
	return r;
}

static int write_authority(struct buf *out, const char *field, const struct host *host,
                           uint16_t port)
{
	char text[HOST_SIZE];

	host_format(host, text);
	return port ? buf_printf(out, "%s: %s:%u\r\n", field, text, port)
	            : buf_printf(out, "%s: %s\r\n", field, text);
}

/* The path of the URL comes before the request's own. */
static int write_target(struct buf *out, const struct http_head *h, const struct proxy_request *r,
                        const struct url *forward)
{
	int prefix = forward ? (int)forward->path_len : 0;

	if (prefix > 0 && forward->path[prefix - 1] == '/')
		prefix--;
	return buf_printf(out, "%s %.*s%s%s%s HTTP/1.1\r\n", h->method, prefix,
	                  forward ? forward->path : "", r->path.text, r->query ? "?" : "",
	                  r->query ? r->query : "");
}

static int write_forwarding(struct buf *out, const struct proxy_request *r,
                            const struct proxy_rewrite *how)
{
	int result = write_authority(out, "X-Forwarded-Host", &r->host, r->port);

	return result == 0 ? buf_printf(out,
	                                "X-Forwarded-Proto: %s\r\nX-Forwarded-Port: %u\r\n"
	                                "X-Cloche-Sandbox: %s\r\n",
	                                how->is_from_tls ? "https" : "http", how->from_port,
	                                how->sandbox_id)
	                   : result;
}

static uint16_t port_said(const struct url *url)
{
	return url->port == (url->scheme == URL_HTTPS ? 443 : 80) ? 0 : url->port;
}

int proxy_request_write(struct buf *out, const struct http_head *h, const struct proxy_request *r,
                        const struct proxy_rewrite *how)
{
	const struct url *forward = how->forward;
	int result = write_target(out, h, r, forward);

	if (result == 0)
		result = forward ? write_authority(out, "Host", &forward->host, port_said(forward))
		                 : write_authority(out, "Host", &r->host, r->port);
	if (result == 0)
		result = write_fields(out, h, how);
	if (result == 0 && forward)
		result = write_forwarding(out, r, how);
	if (result == 0 && how->is_plain)
		result = buf_append_str(out, "Accept-Encoding: identity\r\n");
	if (result == 0 && r->is_upgrade)
		result = buf_append_str(out, UPGRADE);
	if (result == 0 && h->framing == HTTP_CHUNKED)
		result = buf_append_str(out, "Transfer-Encoding: chunked\r\n");
	else if (result == 0 && h->framing == HTTP_LENGTH)
		result = buf_printf(out, "Content-Length: %" PRIu64 "\r\n", h->length);
	return result == 0 ? buf_append_str(out, "\r\n") : result;
}

/* A reply to HEAD says how long the body would have been. */
static const char *length_of_head_reply(const struct http_head *h)
{
	const char *length = http_head_find(h, "content-length");

	if (!h->is_head_reply || !length || http_head_count(h, "content-length") != 1 ||
	    strspn(length, "0123456789") != strlen(length))
		return NULL;
	return length;
}

bool proxy_response_is_encoded(const struct http_head *h)
{
	/* gRPC and Connect encode message by message */
	static const char *const names[] = {"content-encoding", "grpc-encoding",
	                                    "connect-content-encoding"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *encoding = http_head_find(h, names[i]);

		if (encoding &&
		    (http_head_count(h, names[i]) > 1 || strcasecmp(encoding, "identity") != 0))
			return true;
	}
	return false;
}

int proxy_trailers_write(struct buf *out, const struct http_head *h,
                         const struct proxy_rewrite *how, const struct scrub *scrub)
{
	size_t before = out->len;
	int r = 0;

	for (size_t i = 0; r == 0 && i < h->n_fields; i++) {
		struct http_field f = http_head_field(h, i);

		if (!is_ours(f.name) && !is_replaced(f.name, how))
			r = http_encode_field(out, f.name, f.value);
	}
	if (r == 0 && scrub && out->len > before)
		scrub_text(scrub, out->data + before, out->len - before);
	return r;
}

int proxy_response_write(struct buf *out, const struct http_head *h,
                         const struct proxy_reply_form *form)
{
	const char *length = length_of_head_reply(h);
	size_t before = out->len;
	int r = buf_printf(out, "HTTP/1.1 %d %s\r\n", h->status, h->reason);

	if (r == 0)
		r = write_fields(out, h, &(struct proxy_rewrite){0});
	if (r == 0 && form->scrub)
		scrub_text(form->scrub, out->data + before, out->len - before);
	if (r == 0 && form->is_upgrade)
		return buf_append_str(out, UPGRADE "\r\n");
	if (r == 0 && h->framing == HTTP_LENGTH)
		r = buf_printf(out, "Content-Length: %" PRIu64 "\r\n", h->length);
	else if (r == 0 && length)
		r = buf_printf(out, "Content-Length: %s\r\n", length);
	else if (r == 0 && form->is_chunked)
		r = buf_append_str(out, "Transfer-Encoding: chunked\r\n");
	if (r == 0 && form->is_last)
		r = buf_append_str(out, "Connection: close\r\n");
	return r == 0 ? buf_append_str(out, "\r\n") : r;
}
