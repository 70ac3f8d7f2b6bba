// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/envd/envd.h"

#include "api/frame/wake.h"
#include "base/clock.h"
#include "base/parse.h"
#include "compat/e2b/envd/sign.h"
#include "compat/e2b/frame/notes.h"
#include "http/target.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* "49983-k3v9….DOMAIN" where DOMAIN is ours. */
static bool read_host(const struct http_req *req, char ret_id[ID_SIZE], unsigned *ret_port)
{
	const struct api *api = http_app_arg(req);
	const char *host = http_header(req, "Host"), *domain = api->preview.domain, *dot;
	char name[HTTP_HOST_SIZE], digits[8];
	unsigned port;
	uint64_t number;

	if (!domain || !host || http_host_parse(host, name, &port) < 0)
		return false;
	dot = strchr(name, '.');
	if (!dot || strcasecmp(dot + 1, domain) != 0)
		return false;
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)strcspn(name, "-"), name);
	if (parse_u64(digits, UINT16_MAX, &number) < 0 || name[strlen(digits)] != '-')
		return false;
	name[dot - name] = '\0';
	*ret_port = (unsigned)number;
	e2b_native_id(name + strlen(digits) + 1, ret_id);
	return true;
}

void envd_named(const struct http_req *req, char ret_id[ID_SIZE], unsigned *ret_port)
{
	const char *id = http_header(req, "E2b-Sandbox-Id");
	const char *port = http_header(req, "E2b-Sandbox-Port");
	uint64_t number = 0;

	ret_id[0] = '\0';
	*ret_port = 0;
	if (read_host(req, ret_id, ret_port))
		return;
	if (id)
		e2b_native_id(id, ret_id);
	if (port && parse_u64(port, UINT16_MAX, &number) == 0)
		*ret_port = (unsigned)number;
}

/* The daemon itself answers for api.DOMAIN and for the host names of sandboxes' envd and
 * interpreter. At api.DOMAIN only E2B's paths: it is of one site with pages that sandboxes serve,
 * so nobody is to log in there. */
int envd_divert(struct http_req *req, struct err *err)
{
	char id[ID_SIZE];
	unsigned port = 0;

	if (e2b_is_api_host(req))
		return e2b_has_path(http_req_head(req)->target)
		               ? 2
		               : err_set(err, ERR_NOT_FOUND, 0, "this path is not in E2B's API");
	if (!read_host(req, id, &port))
		return 0;
	return port == E2B_ENVD_PORT || port == E2B_CODE_PORT ? 2 : 0;
}

/* The answer of E2B's own proxy for a missing sandbox; clients recognise it by this. */
static int reply_gone(struct http_req *req, const char *id)
{
	auto_call(buf_done) struct buf body = BUF_INIT(1024);
	struct json_writer w;

	json_writer_init(&w, &body);
	json_open_object(&w, NULL);
	json_put_str(&w, "sandboxId", strncmp(id, "sb_", 3) == 0 ? id + 3 : id);
	json_put_str(&w, "message", "The sandbox was not found");
	json_put_i64(&w, "code", 502);
	json_close_object(&w);
	if (json_writer_end(&w) < 0)
		buf_truncate(&body, 0);
	http_reply_json(req, 502, &body);
	return 1;
}

static bool any(const struct sandbox *s, void *arg)
{
	(void)arg;
	return e2b_is_there(s);
}

/* A call resumes only a sandbox that was created for that; any other paused sandbox counts as
 * missing. */
static bool is_woken_by_call(const struct sandbox *s)
{
	struct sandbox_facts f;

	sandbox_facts(s, &f);
	return f.auto_resumes && sandbox_wakes_by_call(s);
}

/* Returns 0 if it runs, 1 if it is being resumed. */
static int let_run(struct http_req *req, struct sandbox *s, struct err *err)
{
	int r = is_woken_by_call(s) ? wake_sandbox(req, s, err) : 0;

	if (r != 0)
		return r;
	if (sandbox_state(s) != SANDBOX_RUNNING)
		return reply_gone(req, sandbox_id(s));
	sandbox_touch(s);
	return 0;
}

static int find_named(struct http_req *req, unsigned port, struct sandbox **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	unsigned named;
	char id[ID_SIZE];

	envd_named(req, id, &named);
	if (named != port)
		return err_set(err, ERR_BAD_REQUEST, 0,
		               "E2b-Sandbox-Id and E2b-Sandbox-Port must name port %u of a sandbox",
		               port);
	*ret = id[0] ? sandbox_find_shown(api->fleet, id, any, NULL) : NULL;
	if (!*ret)
		return reply_gone(req, id);
	http_set_subject(req, sandbox_id(*ret));
	return 0;
}

static int read_user(const struct http_req *req, struct envd_caller *c, struct err *err)
{
	const char *value = http_header(req, "Authorization");
	char text[128];
	ssize_t n;

	c->user = c->user_buf;
	c->user_buf[0] = '\0';
	if (!value || strncasecmp(value, "Basic ", 6) != 0)
		return 0;
	if (strlen(value + 6) > sizeof(text) / 3 * 4)
		return err_set(err, ERR_UNAUTHENTICATED, 0, "the user's name is too long");
	n = base64_decode(value + 6, strlen(value + 6), text);
	if (n < 0)
		return err_set(err, ERR_UNAUTHENTICATED, 0, "Authorization must be base64");
	text[MIN((size_t)n, sizeof(text) - 1)] = '\0';
	(void)snprintf(c->user_buf, sizeof(c->user_buf), "%.*s", (int)strcspn(text, ":"), text);
	return 0;
}

/* The caller acts as the key that was given the token, and is cut off with it. */
static int check_token(struct http_req *req, struct sandbox *s, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct key *key = NULL;
	struct notes n;

	notes_read(s, &n);
	if (n.is_ours && !n.tokens.first)
		return 0;
	if (n.is_ours)
		key = key_tokens_find(&n.tokens, api->keyring, key_token_is,
		                      http_header(req, "X-Access-Token"));
	if (key) {
		api_let_in(req, key);
		notes_add_client(s, key, http_peer_network(req));
		return 0;
	}
	return err_set(err, ERR_UNAUTHENTICATED, 0,
	               "unauthorized access, please provide a valid "
	               "access token or method signing if supported");
}

int envd_find(struct http_req *req, struct envd_caller *ret, struct err *err)
{
	int r = find_named(req, E2B_ENVD_PORT, &ret->s, err);

	if (r == 0)
		r = check_token(req, ret->s, err);
	if (r == 0)
		r = read_user(req, ret, err);
	return r == 0 ? let_run(req, ret->s, err) : r;
}

int envd_find_again(struct http_req *req, struct envd_caller *ret, struct err *err)
{
	int r = find_named(req, E2B_ENVD_PORT, &ret->s, err);

	if (r == 0)
		r = check_token(req, ret->s, err);
	if (r == 0)
		r = read_user(req, ret, err);
	if (r == 0 && sandbox_state(ret->s) != SANDBOX_RUNNING)
		return reply_gone(req, sandbox_id(ret->s));
	return r;
}

/* If a sandbox's ports are closed, the interpreter's port is closed too. */
static int find_interpreter(struct http_req *req, struct sandbox **ret, struct err *err)
{
	struct notes n;
	int r = find_named(req, E2B_CODE_PORT, ret, err);

	if (r != 0)
		return r;
	notes_read(*ret, &n);
	if (!n.is_ours ||
	    (n.traffic && !key_token_is(n.traffic, http_header(req, "E2B-Traffic-Access-Token"))))
		return err_set(err, ERR_FORBIDDEN, 0,
		               "this sandbox needs its traffic access token");
	return 0;
}

int envd_find_execute(struct http_req *req, struct sandbox **ret, struct err *err)
{
	int r = find_interpreter(req, ret, err);

	if (r == 0)
		r = check_token(req, *ret, err);
	return r == 0 ? let_run(req, *ret, err) : r;
}

int envd_find_contexts(struct http_req *req, struct sandbox **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct key *key;
	int r = find_interpreter(req, ret, err);

	if (r != 0)
		return r;
	key = notes_client_key(*ret, api->keyring, http_peer_network(req));
	if (key)
		api_let_in(req, key);
	else
		r = check_token(req, *ret, err);
	return r == 0 ? let_run(req, *ret, err) : r;
}

static bool is_ours(const struct sandbox *s, void *arg)
{
	struct notes n;

	(void)arg;
	notes_read(s, &n);
	return n.is_ours && n.template;
}

static int reply_forbidden(struct http_req *req)
{
	static const char text[] =
		"{\"code\":403,\"message\":\"Sandbox is secured with traffic access token\"}";

	http_reply(req, 403, "application/json", text, sizeof(text) - 1);
	return 2;
}

/* "host:${PORT}" with the port in its place. */
static void put_mask(const char *mask, uint16_t port, char ret[PREVIEW_HOST_SIZE])
{
	static const char place[] = "${PORT}";
	const char *at = strstr(mask, place);

	if (at)
		(void)snprintf(ret, PREVIEW_HOST_SIZE, "%.*s%u%s", (int)(at - mask), mask, port,
		               at + strlen(place));
	else
		(void)snprintf(ret, PREVIEW_HOST_SIZE, "%s", mask);
}

int envd_admits(struct http_req *req, const char *id, uint16_t port, struct sandbox **ret,
                char ret_host[PREVIEW_HOST_SIZE])
{
	const struct api *api = http_app_arg(req);
	struct sandbox *s = sandbox_find_shown(api->fleet, id, is_ours, NULL);
	struct notes n;

	if (!s)
		return 0;
	notes_read(s, &n);
	if (n.traffic && !key_token_is(n.traffic, http_header(req, "E2B-Traffic-Access-Token")))
		return reply_forbidden(req);
	if (!e2b_is_there(s) || (sandbox_state(s) != SANDBOX_RUNNING && !is_woken_by_call(s))) {
		(void)reply_gone(req, id);
		return 2;
	}
	*ret = s;
	if (n.mask_host)
		put_mask(n.mask_host, port, ret_host);
	return 1;
}

struct signature_search {
	const struct signature *sig;
	struct keyring *keyring;
	const struct key *key; /* whose token it was signed with */
};

static bool is_by(const char *token, const void *sig)
{
	return signature_is_by(sig, token);
}

static bool is_signed_for(const struct sandbox *s, void *arg)
{
	struct signature_search *search = arg;
	struct notes n;

	notes_read(s, &n);
	search->key = e2b_is_there(s)
	                      ? key_tokens_find(&n.tokens, search->keyring, is_by, search->sig)
	                      : NULL;
	return search->key;
}

static int find_by_signature(struct http_req *req, struct signature *sig, struct sandbox **ret,
                             struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct signature_search search = {.sig = sig, .keyring = api->keyring};
	unsigned port;
	char id[ID_SIZE];

	envd_named(req, id, &port);
	if (id[0] && !sandbox_find_shown(api->fleet, id, any, NULL))
		return reply_gone(req, id);
	*ret = sandbox_find_shown(api->fleet, id[0] ? id : NULL, is_signed_for, &search);
	if (!*ret)
		return err_set(err, ERR_UNAUTHENTICATED, 0, "invalid signature");
	if (signature_has_expired(sig, clock_wall_us() / 1000000))
		return err_set(err, ERR_UNAUTHENTICATED, 0, "signature is already expired");
	api_let_in(req, search.key);
	return 0;
}

int envd_find_signed(struct http_req *req, const char *op, struct envd_caller *ret, struct err *err)
{
	struct signature sig = {.path = http_query(req, "path"),
	                        .op = op,
	                        .username = http_query(req, "username"),
	                        .expiration = http_query(req, "signature_expiration"),
	                        .text = http_query(req, "signature")};
	int r;

	sig.path = sig.path ? sig.path : "";
	sig.username = sig.username ? sig.username : "";
	if (sig.text && !http_header(req, "X-Access-Token")) {
		r = find_by_signature(req, &sig, &ret->s, err);
		if (r == 0)
			r = let_run(req, ret->s, err);
	} else {
		r = envd_find(req, ret, err);
	}
	if (r == 0)
		(void)snprintf(ret->user_buf, sizeof(ret->user_buf), "%s", sig.username);
	ret->user = ret->user_buf;
	return r;
}

int envd_health(struct http_req *req, struct err *err)
{
	struct sandbox *s;
	int r = find_named(req, E2B_ENVD_PORT, &s, err);

	/* Checking whether it runs needs no token; resuming it does. */
	if (r == 0 && sandbox_state(s) != SANDBOX_RUNNING)
		r = is_woken_by_call(s) && check_token(req, s, err) == 0
		            ? let_run(req, s, err)
		            : reply_gone(req, sandbox_id(s));
	if (r == 0)
		http_reply(req, 204, NULL, NULL, 0);
	return r;
}

char *envd_path(const struct sandbox *s, const char *path)
{
	const char *cwd = sandbox_cwd(s);

	if (path[0] == '~' && path[1] == '/')
		return xstrdup(path[2] ? path + 2 : ".");
	if (strcmp(path, "~") == 0)
		return xstrdup(".");
	if (path[0] == '\0')
		return xstrdup(cwd[0] ? cwd : ".");
	return path[0] == '/' || !cwd[0] ? xstrdup(path) : xasprintf("%s/%s", cwd, path);
}
