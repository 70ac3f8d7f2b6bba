// SPDX-License-Identifier: Apache-2.0
/*
 * The HTTP side: POST takes one message and answers it, DELETE ends a session, GET holds one.
 *
 * Both eras are served here. A client of the older one gets Mcp-Session-Id with `initialize` and
 * sends it with all further requests; errors are JSON-RPC's, with status 200, except for an unknown
 * session (404, after which clients start a new one). The newer one has no session; its headers
 * must agree with its body, and errors have an HTTP status. A session id is accepted there too,
 * though the standard has none: `cloche mcp` sends it, so that its client has a sandbox without
 * asking for one.
 *
 * Keys, Host and Origin were checked before any of this (http/router.c).
 */
#include "mcp/server.h"

#include "api/frame/audit.h"

#include "base/parse.h"
#include "mcp/mcp_private.h"

#include <string.h>

#define REPLY_MAX      (256 * 1024)
#define LIST_TTL_MS    3600000 /* the tools change with the daemon only */
#define SESSION_HEADER "Mcp-Session-Id"
#define HOLD_HEADER    "Cloche-Hold-Session"

static const char instructions[] =
	"cloche runs code and commands in isolated sandboxes. run_code keeps variables, imports "
	"and "
	"files from call to call; exec runs shell commands in the same sandbox. A session has a "
	"sandbox of its own; without a session, call create_sandbox and pass its id as sandbox_id.";

static void put_info(struct json_writer *w, const char *name)
{
	json_open_object(w, name);
	json_put_str(w, "name", "cloche");
	json_put_str(w, "title", "cloche sandboxes");
	json_put_str(w, "version", CLOCHE_VERSION);
	json_close_object(w);
}

void server_put_common(struct json_writer *w, bool is_modern)
{
	if (!is_modern)
		return;
	json_put_str(w, "resultType", "complete");
	json_open_object(w, "_meta");
	put_info(w, "io.modelcontextprotocol/serverInfo");
	json_close_object(w);
}

static void put_capabilities(struct json_writer *w)
{
	json_open_object(w, "capabilities");
	json_open_object(w, "tools");
	json_put_bool(w, "listChanged", false);
	json_close_object(w);
	json_close_object(w);
}

static void put_cache(struct json_writer *w)
{
	json_put_u64(w, "ttlMs", LIST_TTL_MS);
	json_put_str(w, "cacheScope", "private");
}

static void put_initialize(struct json_writer *w, const struct rpc_message *m)
{
	json_put_str(w, "protocolVersion", rpc_pick_version(m->params));
	put_capabilities(w);
	put_info(w, "serverInfo");
	json_put_str(w, "instructions", instructions);
}

static void put_discover(struct json_writer *w, const struct rpc_message *m)
{
	(void)m;
	json_open_array(w, "supportedVersions");
	json_put_str(w, NULL, RPC_VERSION_MODERN);
	json_close_array(w);
	put_capabilities(w);
	json_put_str(w, "instructions", instructions);
	put_cache(w);
}

static void put_tools(struct json_writer *w, const struct rpc_message *m)
{
	tools_to_json(w, "tools");
	if (m->version)
		put_cache(w);
}

static void put_nothing(struct json_writer *w, const struct rpc_message *m)
{
	(void)w;
	(void)m;
}

/* Methods that are answered at once. */
static const struct {
	const char *name;
	void (*put)(struct json_writer *w, const struct rpc_message *m);
} methods[] = {
	{"initialize", put_initialize},
	{"server/discover", put_discover},
	{"tools/list", put_tools},
	{"ping", put_nothing},
};

static int status_of(int code, const struct rpc_message *m)
{
	if (code == RPC_NO_SESSION)
		return 404;
	if (!m->version && code != RPC_INVALID_REQUEST)
		return 200;
	if (code == RPC_NO_METHOD)
		return 404;
	return code == RPC_INTERNAL ? 500 : 400;
}

static int reply_error(struct http_req *req, const struct rpc_message *m, int code,
                       const struct err *err)
{
	auto_call(buf_done) struct buf out = BUF_INIT(REPLY_MAX);

	if (rpc_put_error(&out, m->id, code, err->message, err->hint) < 0)
		abort(); /* all of it is bounded */
	http_reply_json(req, status_of(code, m), &out);
	return 0;
}

static int reply_result(struct http_req *req, const struct rpc_message *m, size_t method,
                        struct err *err)
{
	auto_call(buf_done) struct buf out = BUF_INIT(REPLY_MAX);
	bool is_modern = m->version || strcmp(m->method, "server/discover") == 0;
	struct json_writer w;

	json_writer_init(&w, &out);
	rpc_open(&w, m->id);
	json_open_object(&w, "result");
	server_put_common(&w, is_modern);
	methods[method].put(&w, m);
	json_close_object(&w);
	json_close_object(&w);
	if (json_writer_end(&w) < 0)
		return err_set(err, ERR_INTERNAL, 0, "the answer is too long");
	http_reply_json(req, 200, &out);
	return 0;
}

/* A text that cannot be a header value comes as =?base64?…?= */
static bool header_is(const char *header, const char *text)
{
	static const char before[] = "=?base64?", after[] = "?=";
	size_t len = header ? strlen(header) : 0, around = strlen(before) + strlen(after);
	char plain[RPC_TEXT_MAX * 2];
	ssize_t n;

	if (!header || !text)
		return header == text;
	if (strncmp(header, before, strlen(before)) != 0 || len < around ||
	    strcmp(header + len - strlen(after), after) != 0)
		return strcmp(header, text) == 0;
	if (len - around > sizeof(plain))
		return false;
	n = base64_decode(header + strlen(before), len - around, plain);
	return n >= 0 && (size_t)n == strlen(text) && memcmp(plain, text, (size_t)n) == 0;
}

/* 0, or a code with err. */
static int check_era(const struct http_req *req, const struct rpc_message *m, struct err *err)
{
	const char *version = http_header(req, "MCP-Protocol-Version");
	bool has_name = m->method && strcmp(m->method, "tools/call") == 0;

	if (!m->version) {
		if (!version || strcmp(version, RPC_VERSION_MODERN) != 0 || m->kind != RPC_REQUEST)
			return 0;
		(void)err_set(err, ERR_BAD_REQUEST, 0,
		              "params._meta must have the protocol version that the header has");
		return RPC_INVALID_PARAMS;
	}
	if (!header_is(version, m->version) ||
	    !header_is(http_header(req, "Mcp-Method"), m->method) ||
	    (has_name && !header_is(http_header(req, "Mcp-Name"), rpc_param(m, "name")))) {
		(void)err_set(err, ERR_BAD_REQUEST, 0,
		              "MCP-Protocol-Version, Mcp-Method and Mcp-Name must be as in the "
		              "body");
		return RPC_HEADER_MISMATCH;
	}
	if (strcmp(m->version, RPC_VERSION_MODERN) == 0)
		return 0;
	(void)err_set(err, ERR_BAD_REQUEST, 0, "version '%.32s' is not spoken here", m->version);
	return RPC_NO_VERSION;
}

/* 0 and a session or NULL, or a code. */
static int find_session(struct http_req *req, const struct rpc_message *m, struct session **ret,
                        struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_header(req, SESSION_HEADER);

	*ret = id ? session_find(api->mcp, http_user(req), id) : NULL;
	if (*ret)
		session_touch(*ret);
	if (*ret || !id || (m->method && strcmp(m->method, "initialize") == 0))
		return 0;
	(void)err_set(err, ERR_NOT_FOUND, 0, "this session has ended, or never was");
	(void)err_hint(err, "begin a new one with initialize");
	return RPC_NO_SESSION;
}

static void cancel(struct http_req *req, const struct session *s, const struct rpc_message *m)
{
	const struct api *api = http_app_arg(req);
	const json_t *id = json_object_get(m->params, "requestId");

	list_for_each (&api->mcp->calls, struct mcp_call, c, link)
		if (s && c->session == s && json_equal(c->id, unconst(id))) {
			call_cancel(c);
			return;
		}
}

static int take_notification(struct http_req *req, const struct session *s,
                             const struct rpc_message *m)
{
	if (m->kind == RPC_NOTIFICATION && strcmp(m->method, "notifications/cancelled") == 0)
		cancel(req, s, m);
	http_reply(req, 202, NULL, NULL, 0);
	return 0;
}

static int open_session(struct http_req *req, struct session *s, struct err *err)
{
	const struct api *api = http_app_arg(req);
	auto_json json_t *wish = NULL;
	int r = place_wish(req, &wish, err); /* a wrong URL is reported at once */

	if (r < 0)
		return r;
	if (!s)
		s = session_new(api->mcp, http_user(req), err);
	if (!s)
		return -EAGAIN;
	http_reply_header(req, SESSION_HEADER, s->id);
	return 0;
}

static int answer_request(struct http_req *req, struct session *s, const struct rpc_message *m,
                          struct err *err)
{
	const struct api *api = http_app_arg(req);

	if (strcmp(m->method, "tools/call") == 0)
		return call_start(api->mcp, req, s, m, err) < 0
		               ? reply_error(req, m, RPC_INVALID_PARAMS, err)
		               : 0;
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (strcmp(m->method, methods[i].name) != 0)
			continue;
		if (strcmp(m->method, "initialize") == 0 && open_session(req, s, err) < 0)
			return -EINVAL;
		return reply_result(req, m, i, err);
	}
	(void)err_set(err, ERR_NOT_FOUND, 0, "there is no method '%.64s'", m->method);
	return reply_error(req, m, RPC_NO_METHOD, err);
}

static int post_mcp(struct http_req *req, struct err *err)
{
	struct rpc_message m;
	struct session *s = NULL;
	struct err why = {0};
	int code = rpc_read(http_json(req), &m, &why);

	if (code == 0)
		code = check_era(req, &m, &why);
	if (code == 0)
		code = find_session(req, &m, &s, &why);
	if (code < 0)
		return reply_error(req, &m, code, &why);
	return m.kind == RPC_REQUEST ? answer_request(req, s, &m, err)
	                             : take_notification(req, s, &m);
}

static int need_session(struct http_req *req, struct session **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_header(req, SESSION_HEADER);

	*ret = id ? session_find(api->mcp, http_user(req), id) : NULL;
	return *ret ? 0 : err_set(err, ERR_NOT_FOUND, 0, "there is no such MCP session");
}

static int delete_mcp(struct http_req *req, struct err *err)
{
	struct session *s;
	int r = need_session(req, &s, err);

	if (r < 0)
		return r;
	session_end(s);
	http_reply(req, 204, NULL, NULL, 0);
	return 0;
}

/* In the older era this stream is for requests of the server to its client; there are none here. */
static int get_mcp(struct http_req *req, struct err *err)
{
	struct session *s;
	int r;

	if (!http_header(req, HOLD_HEADER)) {
		http_reply_header(req, "Allow", "POST, DELETE");
		return err_set(err, ERR_METHOD_NOT_ALLOWED, 0,
		               "this server has nothing to tell unasked: send messages by POST");
	}
	r = need_session(req, &s, err);
	if (r == 0)
		session_hold(s, req);
	return r;
}

static const struct http_route routes[] = {
	{HTTP_POST, "/mcp", post_mcp, HTTP_BODY_JSON, SCOPE_WRITE, MCP_BODY_MAX,
         .audit = AUDIT_TOOL},
	{HTTP_GET, "/mcp", get_mcp, HTTP_BODY_NONE, SCOPE_WRITE, .audit = AUDIT_NONE},
	{HTTP_DELETE, "/mcp", delete_mcp, HTTP_BODY_NONE, SCOPE_WRITE},
};

const struct http_route *mcp_routes(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(routes);
	return routes;
}

struct mcp *mcp_new(struct api *api)
{
	struct mcp *m = xnew0(struct mcp);

	m->api = api;
	api->mcp = m;
	list_init(&m->calls);
	sessions_init(m);
	return m;
}

void mcp_close(struct mcp *m)
{
	m->is_closing = true;
	list_for_each (&m->sessions, struct session, s, link) {
		if (s->hold)
			http_stream_end(s->hold);
		s->hold = NULL;
	}
}

void mcp_free(struct mcp *m)
{
	if (!m)
		return;
	sessions_done(m);
	free(m);
}
