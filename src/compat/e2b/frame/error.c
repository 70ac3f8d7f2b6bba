// SPDX-License-Identifier: Apache-2.0
/*
 * Errors in E2B's form. Its clients recognise "not found" and "already paused" by the body's code:
 * a number on the control plane and for files, a word in RPCs; the interpreter's errors are plain
 * text. A client that meets another form tells its user nothing (Python: KeyError 'code';
 * JavaScript: [object Object]), so also what the router refuses is told so.
 */
#include "compat/e2b/e2b.h"

#include "http/target.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define BODY_MAX ((size_t)8 * 1024)

enum dialect { DIALECT_REST, DIALECT_RPC, DIALECT_TEXT };

static const struct {
	const char *segment; /* the first of the path */
	enum dialect dialect;
	bool is_inside; /* its own token lets in: envd, the interpreter, files of volumes, builds */
} parts[] = {
	{"sandboxes", DIALECT_REST},
	{"v2", DIALECT_REST},
	{"v3", DIALECT_REST},
	{"templates", DIALECT_REST},
	{"templatefiles", DIALECT_REST, true},
	{"default-templates", DIALECT_REST},
	{"snapshots", DIALECT_REST},
	{"secrets", DIALECT_REST},
	{"teams", DIALECT_REST},
	{"volumes", DIALECT_REST},
	{"volumecontent", DIALECT_REST, true},
	{"files", DIALECT_REST, true},
	{"health", DIALECT_REST, true},
	{"process.Process", DIALECT_RPC, true},
	{"filesystem.Filesystem", DIALECT_RPC, true},
	{"execute", DIALECT_TEXT, true},
	{"contexts", DIALECT_TEXT, true},
};

/* The row of the path's first segment, or -1. */
static int find_part(const char *path)
{
	size_t len;

	path += *path == '/';
	len = strcspn(path, "/?");
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strlen(parts[i].segment) == len && strncmp(parts[i].segment, path, len) == 0)
			return (int)i;
	return -1;
}

bool e2b_has_path(const char *path)
{
	return find_part(path) >= 0;
}

/* The path, or the target as it came where that has no path that could be read. */
static const char *path_of(const struct http_req *req)
{
	const char *path = http_path(req), *target = http_req_head(req)->target;

	return path[0] == '/' || !target ? path : target;
}

/* The label before DOMAIN in the request's Host; "" if it is none of ours. */
static void read_label(const struct http_req *req, char ret[HTTP_HOST_SIZE])
{
	const struct api *api = http_app_arg(req);
	const char *host = http_header(req, "Host");
	char name[HTTP_HOST_SIZE];
	size_t len;
	unsigned port;

	ret[0] = '\0';
	if (!api->preview.domain || !host || http_host_parse(host, name, &port) < 0)
		return;
	len = strcspn(name, ".");
	if (name[len] && strcasecmp(name + len + 1, api->preview.domain) == 0)
		(void)snprintf(ret, HTTP_HOST_SIZE, "%.*s", (int)len, name);
}

bool e2b_is_api_host(const struct http_req *req)
{
	char label[HTTP_HOST_SIZE];

	read_label(req, label);
	return strcasecmp(label, "api") == 0;
}

/* Whether one of E2B's clients asks for a path that nobody has. */
static bool is_lost_client(const struct http_req *req)
{
	const char *key = http_header(req, "X-API-Key"), *agent = http_header(req, "User-Agent");

	return !http_route(req) &&
	       ((key && strncmp(key, "e2b_", 4) == 0) || (agent && strncmp(agent, "e2b-", 4) == 0));
}

bool e2b_owns(const struct http_req *req)
{
	char label[HTTP_HOST_SIZE];

	read_label(req, label);
	if (label[0]) /* what a sandbox serves may have any path */
		return strcasecmp(label, "api") == 0 || strncmp(label, "49983-", 6) == 0 ||
		       strncmp(label, "49999-", 6) == 0;
	return e2b_has_path(path_of(req)) || is_lost_client(req);
}

static const char *const rpc_codes[] = {
	[ERR_NONE] = "unknown",
	[ERR_BAD_REQUEST] = "invalid_argument",
	[ERR_INVALID_FIELD] = "invalid_argument",
	[ERR_UNAUTHENTICATED] = "unauthenticated",
	[ERR_FORBIDDEN] = "permission_denied",
	[ERR_NOT_FOUND] = "not_found",
	[ERR_METHOD_NOT_ALLOWED] = "unimplemented",
	[ERR_NOT_ACCEPTABLE] = "invalid_argument",
	[ERR_CONFLICT] = "failed_precondition",
	[ERR_GONE] = "not_found",
	[ERR_TOO_LARGE] = "resource_exhausted",
	[ERR_URI_TOO_LONG] = "invalid_argument",
	[ERR_UNSUPPORTED_MEDIA] = "invalid_argument",
	[ERR_HEADERS_TOO_LARGE] = "invalid_argument",
	[ERR_LIMIT] = "resource_exhausted",
	[ERR_CAPACITY] = "resource_exhausted",
	[ERR_UNAVAILABLE] = "unavailable",
	[ERR_UNSUPPORTED] = "unimplemented",
	[ERR_TIMEOUT] = "deadline_exceeded",
	[ERR_REQUEST_TIMEOUT] = "deadline_exceeded",
	[ERR_FILE_NOT_FOUND] = "not_found",
	[ERR_FILE_EXISTS] = "already_exists",
	[ERR_FILE_DENIED] = "permission_denied",
	[ERR_FILE_INVALID] = "invalid_argument",
	[ERR_DISK_FULL] = "resource_exhausted",
	[ERR_HOST_DISK_FULL] = "resource_exhausted",
	[ERR_GUEST] = "unavailable",
	[ERR_INTERNAL] = "internal",
	[ERR_QUOTA] = "resource_exhausted",
	[ERR_BUDGET] = "resource_exhausted",
	[ERR_SOURCE] = "failed_precondition",
	[ERR_FILE_CHANGED] = "aborted",
	[ERR_NODE_UNREACHABLE] = "unavailable",
	[ERR_CLUSTER] = "unavailable",
	[ERR_FENCED] = "unavailable",
};
static_assert(ARRAY_SIZE(rpc_codes) == ERR_CODE_COUNT, "a code has no word");

bool e2b_is_inside(const struct http_req *req)
{
	int i = find_part(http_path(req));

	return i >= 0 && parts[i].is_inside;
}

const char *e2b_rpc_code(enum err_code code)
{
	return rpc_codes[code];
}

/* Recognises the agent's error; in E2B an unknown user is an authentication error. */
bool e2b_is_unknown_user(const struct err *err)
{
	return strstr(err->message, "user: no user") != NULL;
}

/* For E2B's clients a sandbox that has ended does not exist. */
static enum err_code code_of(const struct err *err)
{
	if (e2b_is_unknown_user(err))
		return ERR_UNAUTHENTICATED;
	return err->code == ERR_GONE ? ERR_NOT_FOUND : err->code;
}

static int status_of(const struct err *err)
{
	return err_code_status(code_of(err));
}

static void fail_json(struct http_req *req, const struct err *err, bool is_rpc)
{
	auto_call(buf_done) struct buf body = BUF_INIT(BODY_MAX);
	int status = status_of(err);
	struct json_writer w;

	json_writer_init(&w, &body);
	json_open_object(&w, NULL);
	if (is_rpc)
		json_put_str(&w, "code", e2b_rpc_code(code_of(err)));
	else
		json_put_i64(&w, "code", status);
	json_put_strn(&w, "message", err->message, strlen(err->message));
	json_close_object(&w);
	if (json_writer_end(&w) < 0) /* cannot pass its cap: err's texts are bounded */
		buf_truncate(&body, 0);
	http_reply_json(req, status, &body);
}

void e2b_fail(struct http_req *req, const struct err *err)
{
	int i = find_part(path_of(req));
	enum dialect dialect = i < 0 ? DIALECT_REST : parts[i].dialect;

	if (dialect == DIALECT_TEXT)
		http_reply(req, status_of(err), "text/plain; charset=utf-8", err->message,
		           strlen(err->message));
	else
		fail_json(req, err, dialect == DIALECT_RPC);
}
