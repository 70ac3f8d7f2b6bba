// SPDX-License-Identifier: Apache-2.0
/*
 * The checks between a complete head and its handler. The order matters:
 *
 *	divert() --> target --> Host --> Origin --> route --> authorize()
 *	         --> locate() --> method --> body --> handler
 *
 * Host and Origin come first because a browser on the same machine can be made to send requests by
 * any site it shows (DNS rebinding, cross-site requests). authorize() comes before 404 and 405, so
 * that a client without a key learns nothing about the routes, and before the body, so that no
 * stranger's bytes are kept.
 */
#include "http/conn.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <strings.h>

#define JSON_BODY_MAX ((uint64_t)1024 * 1024)

static const char *const method_names[] = {
	[HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",   [HTTP_POST] = "POST",
	[HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
	[HTTP_OPTIONS] = "OPTIONS",
};
static_assert(ARRAY_SIZE(method_names) == HTTP_METHOD_COUNT, "a method has no name");

const char *http_method_name(enum http_method method)
{
	return (unsigned)method < HTTP_METHOD_COUNT ? method_names[method] : "?";
}

/* HTTP_METHOD_COUNT if no route has that method. */
static enum http_method find_method(const char *name)
{
	for (unsigned i = 0; i < HTTP_METHOD_COUNT; i++)
		if (strcmp(method_names[i], name) == 0)
			return (enum http_method)i;
	return HTTP_METHOD_COUNT;
}

int http_check_host(const struct http_req *req, struct err *err)
{
	const char *const *hosts = server_app(req->conn->server)->hosts;
	const char *host = http_header(req, "Host");
	char name[HTTP_HOST_SIZE];
	unsigned port;

	if (!hosts || req->conn->is_unix || req->conn->hop_from)
		return 0;
	if (!host || http_host_parse(host, name, &port) < 0)
		return err_set(err, ERR_FORBIDDEN, 0, "a request without Host is not served here");
	for (; *hosts; hosts++)
		if (strcasecmp(*hosts, name) == 0)
			return 0;
	(void)err_set(err, ERR_FORBIDDEN, 0, "this server does not answer to the name '%s'", name);
	return err_hint(err, "use one of its names, or add this one to `hosts` of its settings");
}

static int check_origin(const struct http_req *req, struct err *err)
{
	const char *origin = http_header(req, "Origin");
	const char *host = http_header(req, "Host");
	const char *authority = origin ? strstr(origin, "://") : NULL;

	if (!origin || (authority && host && strcasecmp(authority + 3, host) == 0))
		return 0;
	return err_set(err, ERR_FORBIDDEN, 0, "a page of another site must not use this server");
}

/* Whether the pattern's segments are those of the path; fills in the params. */
static bool matches(struct http_req *req, const char *pattern)
{
	size_t i = 0;

	req->n_params = 0;
	for (const char *p = pattern; *p == '/' && p[1]; i++) {
		size_t len = strcspn(++p, "/");

		if (i == req->target.n_segments)
			return false;
		if (*p == '{') {
			assert(req->n_params < PARAMS_MAX);
			req->params[req->n_params++] = (struct route_param){
				p + 1, strcspn(p + 1, "}"), req->target.segments[i]};
		} else if (strlen(req->target.segments[i]) != len ||
		           memcmp(p, req->target.segments[i], len) != 0) {
			return false;
		}
		p += len;
	}
	return i == req->target.n_segments;
}

static const struct http_route *find_route(struct http_req *req)
{
	const struct http_app *app = server_app(req->conn->server);
	enum http_method method = req->method == HTTP_HEAD ? HTTP_GET : req->method;

	for (size_t i = 0; i < app->n_routes; i++)
		if (app->routes[i].method == method && matches(req, app->routes[i].path))
			return &app->routes[i];
	req->n_params = 0;
	return NULL;
}

/* Lists the methods of a path, "GET, HEAD, …"; nothing if no route has that path. */
static int list_methods(struct http_req *req, struct buf *out)
{
	const struct http_app *app = server_app(req->conn->server);
	unsigned seen = 0;

	for (size_t i = 0; i < app->n_routes; i++)
		if (matches(req, app->routes[i].path))
			seen |= BIT(app->routes[i].method);
	req->n_params = 0;
	if (seen & BIT(HTTP_GET))
		seen |= BIT(HTTP_HEAD);
	for (unsigned i = 0; i < HTTP_METHOD_COUNT; i++) {
		int r = !(seen & BIT(i)) ? 0
		                         : buf_printf(out, "%s%s", out->len > 0 ? ", " : "",
		                                      method_names[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

static int no_route(struct http_req *req, struct err *err)
{
	auto_call(buf_done) struct buf allow = BUF_INIT(128);

	if (req->target.path && list_methods(req, &allow) < 0)
		return err_set(err, ERR_INTERNAL, 0, "cannot list the methods");
	if (allow.len > 0)
		http_reply_header(req, "Allow", allow.data);
	if (req->method == HTTP_OPTIONS && (allow.len > 0 || !req->target.path)) {
		http_reply(req, 204, NULL, NULL, 0);
		return 0;
	}
	if (allow.len == 0)
		return err_set(err, ERR_NOT_FOUND, 0, "no such path: '%.200s'", http_path(req));
	return err_set(err, ERR_METHOD_NOT_ALLOWED, 0, "%s is not possible on this path, only %s",
	               req->head.method, allow.data);
}

static bool has_body(const struct http_req *req)
{
	return req->head.framing == HTTP_CHUNKED || req->head.length > 0;
}

static bool is_json(const char *type)
{
	size_t len = strcspn(type, "; \t");

	return len == 16 && strncasecmp(type, "application/json", len) == 0 &&
	       strspn(type + len, " \t") == strcspn(type + len, ";");
}

static int check_body(struct http_req *req, struct err *err)
{
	const char *type = http_header(req, "Content-Type");
	const char *coding = http_header(req, "Content-Encoding");
	enum http_body body = req->route->body;

	if (!has_body(req))
		return 0;
	if (body == HTTP_BODY_NONE)
		return err_set(err, ERR_BAD_REQUEST, 0, "this request takes no body");
	if (coding && body != HTTP_BODY_CODED && strcasecmp(coding, "identity") != 0)
		return err_set(err, ERR_UNSUPPORTED_MEDIA, 0, "Content-Encoding is not supported");
	if (body == HTTP_BODY_JSON && (!type || !is_json(type))) {
		(void)err_set(err, ERR_UNSUPPORTED_MEDIA, 0, "the body must be JSON");
		return err_hint(err, "send it with 'Content-Type: application/json'");
	}
	if (req->head.length > req->body_max)
		return err_set(err, ERR_TOO_LARGE, 0, "the body may have up to %" PRIu64 " bytes",
		               req->body_max);
	return 0;
}

static uint64_t body_max(const struct http_app *app, const struct http_route *route)
{
	uint64_t usual = route->body == HTTP_BODY_JSON ? JSON_BODY_MAX : UINT64_MAX;
	uint64_t most = route->body_max > 0 ? route->body_max : usual;

	return app->body_max > 0 ? MIN(most, app->body_max) : most;
}

static int call_handler(struct http_req *req, struct err *err)
{
	const struct http_app *app = server_app(req->conn->server);
	int r;

	if (app->enter)
		app->enter(req);
	req->is_handled = true;
	loop_note(http_loop(req), req->route->path);
	r = req->route->query ? http_query_check(req, req->route->query, err) : 0;
	if (r == 0)
		r = req->route->fn(req, err);
	if (app->leave)
		app->leave(req);
	return r < 0 && app->refused && app->refused(req, err) ? 0 : r;
}

static int start_route(struct http_req *req, struct err *err)
{
	int r;

	req->body_max = body_max(server_app(req->conn->server), req->route);
	r = check_body(req, err);
	if (r < 0)
		return r;
	if (req->route->body != HTTP_BODY_JSON || !has_body(req))
		return call_handler(req, err);
	buf_init(&req->body, req->body_max);
	conn_take_body(req->conn);
	return 0;
}

static int let_in(struct http_req *req, struct err *err)
{
	const struct http_app *app = server_app(req->conn->server);
	int r;

	if (app->authorize) {
		r = app->authorize(req, err);
		if (r != 0)
			return MIN(r, 0);
		req->is_let_in = true;
		server_request_let_in(req->conn->server);
	}
	if (!req->route)
		return no_route(req, err);
	if (app->locate) {
		r = app->locate(req, err);
		if (r != 0)
			return MIN(r, 0);
	}
	return start_route(req, err);
}

static int dispatch(struct http_req *req, struct err *err)
{
	const struct http_app *app = server_app(req->conn->server);
	bool has_good_name = false;
	int r = 0;

	req->method = find_method(req->head.method);
	req->body_max = UINT64_MAX;
	if (app->divert) {
		r = app->divert(req, err);
		if (r < 0 || r == 1)
			return MIN(r, 0);
		has_good_name = r == 2;
		r = 0;
	}
	if (strcmp(req->head.target, "*") != 0)
		r = http_target_parse(req->head.target, &req->target, err);
	if (r < 0)
		req->conn->must_close = true; /* as for any other malformed request */
	if (r == 0 && !has_good_name)
		r = http_check_host(req, err);
	if (r == 0)
		r = check_origin(req, err);
	if (r < 0)
		return r;
	if (req->target.path)
		req->route = find_route(req);
	return let_in(req, err);
}

/* A client may name its request itself, to find it again in logs and events. */
static void take_client_id(struct http_req *req)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	const char *id = http_header(req, "X-Request-Id");
	size_t len = id ? strlen(id) : 0;

	if (len > 0 && len < sizeof(req->id) && strspn(id, letters) == len)
		memcpy(req->id, id, len + 1);
}

static void reply_failure(struct http_req *req, struct err *err)
{
	assert(req->reply == REPLY_NONE); /* a handler that replied returns 0 */
	if (err->code == ERR_NONE)
		(void)err_set(err, ERR_INTERNAL, 0, "the request failed");
	http_reply_err(req, err);
}

void router_dispatch(struct http_req *req)
{
	struct err err = {0};

	req->begun_us = clock_steady_us();
	take_client_id(req);
	if (req->conn->hop_from)
		conn_take_client(req->conn, http_header(req, HTTP_CLIENT_FIELD));
	if (dispatch(req, &err) < 0)
		reply_failure(req, &err);
}

void http_authorize_again(struct http_req *req)
{
	struct err err = {0};

	req->is_asked_again = true;
	if (let_in(req, &err) < 0)
		reply_failure(req, &err);
	conn_kick(req->conn);
}

void http_go_on(struct http_req *req)
{
	struct err err = {0};

	if ((req->is_handled ? call_handler(req, &err) : start_route(req, &err)) < 0)
		reply_failure(req, &err);
	conn_kick(req->conn);
}

static void finish_json(struct http_req *req)
{
	struct err err = {0};
	int r = 0;

	if (req->body.len > 0) /* "chunked" may turn out to be empty */
		r = json_parse_up_to(req->body.data, req->body.len, JSON_REQUEST_VALUES_MAX,
		                     &req->json, &err);
	buf_done(&req->body);
	if (r == 0)
		r = call_handler(req, &err);
	if (r < 0)
		reply_failure(req, &err);
}

void router_body(struct http_req *req, const char *data, size_t len)
{
	struct err err = {0};

	if (req->body_seen > req->body_max) {
		(void)err_set(&err, ERR_TOO_LARGE, 0, "the body may have up to %" PRIu64 " bytes",
		              req->body_max);
		conn_refuse(req->conn, &err);
	} else if (req->on_body) {
		req->on_body(req, data, len, req->on_body_arg);
	} else if (!data) {
		finish_json(req);
	} else {
		int r = buf_append(&req->body, data, len);

		if (r < 0) {
			(void)err_set(&err, ERR_CAPACITY, -r, "no memory for the body");
			conn_refuse(req->conn, &err);
		}
	}
}
