// SPDX-License-Identifier: Apache-2.0
/*
 * Who is calling, and may they. Runs before a byte of the body is read, and for unknown paths too,
 * so that a stranger gets the same 401 whatever it asks for. What is open for long (streams,
 * terminals, uploads) is asked about again and again: it ends with its key or login.
 */
#include "api/account/login.h"
#include "api/api.h"
#include "api/frame/access.h"
#include "api/frame/late_reply.h"
#include "api/frame/refuse.h"
#include "api/handlers.h"

#include "tenant/share.h"

#include <string.h>
#include <strings.h>

/* A query ends up in logs and histories of browsers and proxies. */
static bool has_key_in_query(const struct http_req *req)
{
	static const char *const names[] = {"key",   "api_key",      "apikey",
	                                    "token", "access_token", "authorization"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (http_query(req, names[i]))
			return true;
	return false;
}

/* The key's text, NULL if none was sent; < 0: what was sent is not one. */
static int read_secret(struct http_req *req, const char **ret, struct err *err)
{
	const char *bearer = http_header(req, "Authorization");
	const char *plain = http_header(req, "X-API-Key");

	if (bearer && plain)
		return api_refuse(req, err, "a key came in two headers, one is enough");
	if (bearer && strncasecmp(bearer, "Bearer ", 7) != 0)
		return api_refuse(req, err, "the Authorization header must be 'Bearer KEY'");
	*ret = bearer ? bearer + 7 : plain;
	return 0;
}

static bool is_trusted_peer(const struct http_req *req)
{
	return http_peer_is_unix(req) &&
	       (http_peer_uid(req) == 0 || http_peer_uid(req) == geteuid());
}

/* Whether the call needs no key. */
static bool is_open(const struct api *api, const struct http_route *route)
{
	return route && (route->access == 0 || (route->fn == get_metrics && api->is_metrics_open));
}

static const struct key *key_of(const struct http_req *req, const char *secret)
{
	const struct api *api = http_app_arg(req);
	const struct key *key = secret ? keyring_check(api->keyring, secret) : NULL;

	if (!key && !secret && is_trusted_peer(req))
		return keyring_root(api->keyring);
	return key ? key : login_of(req, secret);
}

static bool is_of_project(const struct api *api, const struct key *key, const char *project)
{
	const char *id = project ? keyring_find_project(api->keyring, project) : NULL;

	return !project || (id && strcmp(id, key_project_id(key)) == 0);
}

/* The same words for a project that there is not: a stranger learns nothing. */
static int refuse_project(const struct http_req *req, struct err *err)
{
	const char *project = http_header(req, PROJECT_HEADER);

	if (!project)
		return err_set(err, ERR_FORBIDDEN, 0, "you have no role in any project any more");
	(void)err_set(err, ERR_FORBIDDEN, 0, "you have no role in a project '%.64s'", project);
	return err_hint(err, "GET /v1/login lists your projects; a key belongs to one project");
}

static void on_asked(void *arg)
{
	struct http_req *req = late_reply_take(arg, NULL);

	if (req)
		http_authorize_again(req);
}

/* A key that this node does not know may have been made elsewhere a moment ago. 1: the request
 * waits for the answer. */
static int ask_others(struct http_req *req, const char *secret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct late_reply *late = late_reply_new(req, sizeof(*late));
	enum node_ask ask = http_is_asked_again(req)
	                            ? node_knows_unknown(api->node)
	                            : node_ask_key(api->node, secret, on_asked, late);

	if (ask == NODE_ASK_WAIT)
		return 1;
	(void)late_reply_take(late, NULL);
	return ask == NODE_ASK_CUT
	               ? node_refuse(err,
	                             "this node does not know the key, and cannot ask the cluster")
	               : 0;
}

static int find_key(struct http_req *req, const struct key **ret, struct err *err)
{
	struct api *api = http_app_arg(req);
	const struct http_route *route = http_route(req);
	const char *secret = NULL;
	int r;

	if (has_key_in_query(req))
		return api_refuse(req, err, "a key in the query string is not accepted");
	r = read_secret(req, &secret, err);
	if (r < 0)
		return r;
	*ret = key_of(req, secret);
	if (!*ret && secret && node_is_in(api->node) && !person_session_of(req)) {
		r = ask_others(req, secret, err);
		if (r != 0)
			return r;
	}
	if (*ret && !key_person(*ret) && node_is_in(api->node) &&
	    *ret != keyring_root(api->keyring)) {
		r = node_check_keys(api->node, err);
		if (r < 0)
			return r;
	}
	if (!*ret && person_session_of(req))
		return refuse_project(req, err);
	if (!*ret && secret)
		return api_refuse(req, err, "this key is unknown, malformed or revoked");
	if (!*ret && !is_open(api, route))
		return api_refuse(req, err, "this call needs an API key");
	if (*ret && !is_of_project(api, *ret, http_header(req, PROJECT_HEADER)))
		return refuse_project(req, err);
	if (*ret)
		keyring_note_use(api->keyring, *ret);
	return 0;
}

/* What is done for the connection is charged to its project. */
static void set_share(struct http_req *req, const struct key *key)
{
	const struct api *api = http_app_arg(req);
	struct share *share = key ? shares_get(api->shares, key_project_id(key)) : NULL;

	if (share)
		http_set_share(req, &share->turn);
}

/* Whether it is the key that the request still shows: a login may have ended. */
static bool is_shown(const struct http_req *req, const struct key *key)
{
	const char *secret = NULL;

	return read_secret(unconst(req), &secret, NULL) == 0 && key_of(req, secret) == key;
}

static int refuse_to_go_on(struct err *err)
{
	return err_set(err, ERR_UNAUTHENTICATED, 0,
	               "the key or login of this request was revoked, or has expired");
}

int api_recheck(struct http_req *req, struct err *err)
{
	const struct key *key = http_user(req);

	return !key || (key_is_good(key) && is_shown(req, key)) ? 0 : refuse_to_go_on(err);
}

static int recheck_token(struct http_req *req, struct err *err)
{
	return key_is_good(http_user(req)) ? 0 : refuse_to_go_on(err);
}

void api_let_in(struct http_req *req, const struct key *key)
{
	http_set_user(req, unconst(key));
	set_share(req, key);
	http_set_recheck(req, recheck_token);
	access_enter(req); /* what it does from here on is this key's */
}

/* A person's role comes from the provider: no key that an admin makes would change it. */
static int refuse_scope(const struct key *key, enum key_scope needed, struct err *err)
{
	const char *wanted = key_scope_name(needed), *has = key_scope_name(key_scope(key));

	if (key_person(key)) {
		(void)err_set(err, ERR_FORBIDDEN, 0,
		              "this call needs the role '%s', you have '%s' in this project",
		              wanted, has);
		return err_hint(err, "whoever runs this daemon gives roles to your groups at the "
		                     "login provider: the setting `login.roles`");
	}
	(void)err_set(err, ERR_FORBIDDEN, 0,
	              "this call needs a key with scope '%s', this one has '%s'", wanted, has);
	return err_hint(err, "an admin can make one: cloche key create --scope %s", wanted);
}

int api_authorize(struct http_req *req, struct err *err)
{
	const struct http_route *route = http_route(req);
	const struct key *key = NULL;
	int r = find_key(req, &key, err);

	if (r != 0)
		return r;
	http_set_user(req, unconst(key));
	set_share(req, key);
	if (!route || is_open(http_app_arg(req), route) ||
	    (unsigned)key_scope(key) >= route->access)
		return 0;
	return refuse_scope(key, (enum key_scope)route->access, err);
}
