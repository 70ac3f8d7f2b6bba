// SPDX-License-Identifier: Apache-2.0
/*
 * The dashboard's login. A key, or the token of a link that was made with one, is exchanged for a
 * cookie that scripts cannot read.
 *
 * A browser sends a cookie with every call, whichever page made it. So the cookie counts only if no
 * other site can have made the call: together with a header of ours, which a page of another site
 * cannot set (it would have to ask first, and is refused: http/router.c), or, of a WebSocket, which
 * can have none, with an Origin, which the router has held against Host. Sec-Fetch-Site, where the
 * browser tells it, must not say otherwise: names beside ours are of the same site to a cookie, and
 * previews have such. Two cookies of that name mean that somebody there has put one in: neither
 * counts.
 *
 * So no address that a person goes to or that a page shows is ever answered by cookie: what a
 * sandbox has written cannot be opened as a page of this site.
 */
#include "api/account/login.h"

#include "api/frame/find.h"
#include "api/frame/refuse.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#include "base/clock.h"
#include "http/cookie.h"
#include "http/parse.h"
#include "tenant/login.h"
#include "tenant/person_key.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

#define HEADER "X-Cloche-Dashboard"
/* With TLS, the name's beginning makes browsers refuse what another host sets. */
#define COOKIE        "cloche_login"
#define COOKIE_SECURE "__Host-cloche_login"

const char *login_cookie_name(const struct http_req *req)
{
	return http_is_tls(req) ? COOKIE_SECURE : COOKIE;
}

int login_cookie_find(const struct http_req *req, const char *name, char *ret, size_t size)
{
	const char *rest = http_header(req, "Cookie");
	struct cookie cookie, other;

	if (!cookie_next(&rest, name, &cookie) || cookie_next(&rest, name, &other) ||
	    cookie.len == 0 || cookie.len >= size)
		return 0;
	memcpy(ret, cookie.value, cookie.len);
	ret[cookie.len] = '\0';
	return 1;
}

static int find_cookie(const struct http_req *req, char token[LOGIN_TOKEN_SIZE])
{
	return login_cookie_find(req, login_cookie_name(req), token, LOGIN_TOKEN_SIZE);
}

/* Whether this was sent by a page of ours. */
static bool is_ours(const struct http_req *req)
{
	const char *site = http_header(req, "Sec-Fetch-Site");
	const char *upgrade = http_header(req, "Upgrade");

	if (strncmp(http_path(req), "/v1/", 4) != 0)
		return false;
	if (site && strcmp(site, "same-origin") != 0)
		return false;
	if (upgrade && strcasecmp(upgrade, "websocket") == 0)
		return http_header(req, "Origin");
	return http_header(req, HEADER);
}

bool login_is_by_cookie(const struct http_req *req)
{
	char token[LOGIN_TOKEN_SIZE];

	return !http_header(req, "Authorization") && !http_header(req, "X-API-Key") &&
	       strncmp(http_req_head(req)->target, "/v1/", 4) == 0 && find_cookie(req, token);
}

static const char *sent_key(const struct http_req *req)
{
	const char *bearer = http_header(req, "Authorization");

	if (bearer)
		return strncasecmp(bearer, "Bearer ", 7) == 0 ? bearer + 7 : "";
	return http_header(req, "X-API-Key");
}

static struct person_session *find_session(const struct http_req *req, const char *secret)
{
	const struct api *api = http_app_arg(req);
	struct person_sessions *ss = api->people ? login_flow_sessions(api->people) : NULL;
	char token[LOGIN_TOKEN_SIZE];

	if (!ss)
		return NULL;
	if (secret)
		return person_session_find(ss, SESSION_CLIENT, secret);
	if (!is_ours(req) || find_cookie(req, token) != 1)
		return NULL;
	return person_session_find(ss, SESSION_BROWSER, token);
}

struct person_session *person_session_of(const struct http_req *req)
{
	return find_session(req, sent_key(req));
}

const struct key *login_of(const struct http_req *req, const char *secret)
{
	const struct api *api = http_app_arg(req);
	const struct person_session *session = find_session(req, secret);
	char token[LOGIN_TOKEN_SIZE];
	uint64_t expires_us;

	if (session)
		return person_session_key(login_flow_sessions(api->people), session,
		                          http_header(req, PROJECT_HEADER));
	if (secret || !is_ours(req) || find_cookie(req, token) != 1)
		return NULL;
	return login_check(api->logins, token, clock_wall_us(), &expires_us);
}

void login_cookie_set(struct http_req *req, const char *name, const char *value, uint64_t seconds,
                      const char *same_site)
{
	auto_free char *text =
		xasprintf("%s=%s; Path=/; Max-Age=%" PRIu64 "; HttpOnly; SameSite=%s%s", name,
	                  value, seconds, same_site, http_is_tls(req) ? "; Secure" : "");

	http_reply_header(req, "Set-Cookie", text);
	OPENSSL_cleanse(text, strlen(text));
}

static void set_cookie(struct http_req *req, const char *token, uint64_t seconds)
{
	login_cookie_set(req, login_cookie_name(req), token, seconds, "Strict");
}

static void put_role(const struct key *key, void *arg)
{
	struct {
		struct json_writer *w;
		const struct api *api;
	} *to = arg;

	json_open_object(to->w, NULL);
	json_put_str(to->w, "id", key_project_id(key));
	json_put_str(to->w, "name", keyring_project_name(to->api->keyring, key_project_id(key)));
	json_put_str(to->w, "scope", key_scope_name(key_scope(key)));
	json_close_object(to->w);
}

/* The person, and all projects that the person may choose from. */
static void put_person(struct json_writer *w, const struct api *api, const struct key *key,
                       const struct person_session *session)
{
	struct {
		struct json_writer *w;
		const struct api *api;
	} to = {w, api};

	if (!session || !key_person(key)) {
		json_put_null(w, "person");
		return;
	}
	json_put_raw(w, "person", key_person(key), strlen(key_person(key)));
	json_open_array(w, "projects");
	person_keys_each(api->keyring, person_session_person_id(session), put_role, &to);
	json_close_array(w);
}

void login_put_who(struct json_writer *w, const struct http_req *req, const struct key *key,
                   const struct person_session *session, uint64_t expires_us)
{
	struct api *api = http_app_arg(req);
	const char *project_id = key_project_id(key);

	key_to_json(key, w, "key");
	json_open_object(w, "project");
	json_put_str(w, "id", project_id);
	json_put_str(w, "name", keyring_project_name(api->keyring, project_id));
	json_close_object(w);
	json_put_bool(w, "is_host_admin", is_host_admin(api, key));
	put_person(w, api, key, session);
	if (expires_us > 0)
		json_put_u64(w, "expires_us", expires_us);
	else
		json_put_null(w, "expires_us");
}

/* How people log in here, and what was wrong the last time. */
static void put_provider(struct json_writer *w, const struct http_req *req)
{
	const struct api *api = http_app_arg(req);
	const char *word = http_query(req, "problem");
	enum login_problem problem = word ? login_problem_parse(word) : LOGIN_FINE;

	if (api->people) {
		json_open_object(w, "provider");
		json_put_str(w, "name", login_flow_name(api->people));
		json_put_str(w, "path", "/v1/login/oidc/start");
		json_close_object(w);
	} else {
		json_put_null(w, "provider");
	}
	if (problem != LOGIN_FINE) {
		struct err err = {0};

		(void)!login_problem_set(problem, &err);
		json_open_object(w, "problem");
		json_put_str(w, "code", word);
		json_put_str(w, "message", err.message);
		json_put_str(w, "hint", err.hint);
		json_close_object(w);
	}
}

static int reply_who(struct http_req *req, const struct key *key,
                     const struct person_session *session, uint64_t expires_us, struct err *err)
{
	struct reply reply;
	struct json_writer *w = reply_begin(&reply);

	if (key)
		login_put_who(w, req, key, session, expires_us);
	else
		json_put_null(w, "key");
	put_provider(w, req);
	return reply_send(&reply, req, 200, err);
}

int get_login(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	char token[LOGIN_TOKEN_SIZE];
	uint64_t expires_us = 0;
	const struct person_session *session = person_session_of(req);

	if (session)
		expires_us = person_session_expires_us(session);
	else if (is_ours(req) && find_cookie(req, token) == 1)
		(void)login_check(api->logins, token, clock_wall_us(), &expires_us);
	return reply_who(req, http_user(req), session, expires_us, err);
}

static int find_by_body(struct http_req *req, const struct key **ret, struct err *err)
{
	struct api *api = http_app_arg(req);
	const char *secret = NULL, *link = NULL;
	const struct json_field fields[] = {
		{"key", JSON_FIELD_STRING, &secret, .min = 1, .max = 256},
		{"link", JSON_FIELD_STRING, &link, .min = 1, .max = 256},
	};
	int r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	if (!secret == !link)
		return err_field(err, "key", "either a key or the token of a link is needed");
	*ret = secret ? keyring_check(api->keyring, secret)
	              : link_take(api->logins, link, clock_wall_us());
	if (*ret)
		return 0;
	return api_refuse(req, err,
	                  secret ? "this key is unknown, malformed or revoked"
	                         : "this link was used already, or is too old");
}

/* Who comes in leaves a trace, as who is refused does. */
static void tell_login(const struct http_req *req, const struct key *key)
{
	const struct api *api = http_app_arg(req);
	struct event e;
	struct json_writer *w =
		event_begin(&e, api->events, EVENT_KEY_LOGGED_IN, key_project_id(key), NULL);

	json_put_str(w, "subject_key_id", key_id(key));
	json_put_str(w, "scope", key_scope_name(key_scope(key)));
	event_end(&e);
}

int create_login(struct http_req *req, struct err *err)
{
	struct api *api = http_app_arg(req);
	char token[LOGIN_TOKEN_SIZE];
	uint64_t now_us = clock_wall_us();
	const struct key *key = NULL;
	int r = find_by_body(req, &key, err);

	if (r == 0)
		r = login_begin(api->logins, key, now_us, token, err);
	if (r < 0)
		return r;
	tell_login(req, key);
	set_cookie(req, token, LOGIN_US / 1000000);
	OPENSSL_cleanse(token, sizeof(token));
	return reply_who(req, key, NULL, now_us + LOGIN_US, err);
}

int delete_login(struct http_req *req, struct err *err)
{
	struct api *api = http_app_arg(req);
	char token[LOGIN_TOKEN_SIZE];
	struct person_session *session = person_session_of(req);
	int r = 0;

	if (session)
		login_flow_leave(api->people, session);
	else if (is_ours(req) && find_cookie(req, token) == 1)
		r = login_end(api->logins, token, err);
	if (r < 0)
		return r;
	set_cookie(req, "", 0);
	return reply_who(req, NULL, NULL, 0, err);
}

int update_login(struct http_req *req, struct err *err)
{
	struct api *api = http_app_arg(req);
	struct person_session *session = person_session_of(req);
	const char *project = NULL;
	const struct json_field fields[] = {
		{"project", JSON_FIELD_STRING, &project, /* required= */ true, .min = 1, .max = 64},
	};
	int r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	if (!session)
		return err_set(err, ERR_CONFLICT, 0,
		               "a key belongs to one project: only a person's login can change it");
	r = person_session_choose(login_flow_sessions(api->people), session, project, err);
	if (r < 0)
		return r;
	return reply_who(req, person_session_key(login_flow_sessions(api->people), session, NULL),
	                 session, person_session_expires_us(session), err);
}

int create_login_link(struct http_req *req, struct err *err)
{
	struct api *api = http_app_arg(req);
	char token[LOGIN_TOKEN_SIZE];
	uint64_t now_us = clock_wall_us();
	struct reply reply;
	struct json_writer *w;

	link_make(api->logins, http_user(req), now_us, token);
	w = reply_begin(&reply);
	json_put_str(w, "link", token);
	json_put_str(w, "url", api->preview_url);
	json_put_u64(w, "expires_us", now_us + LINK_US);
	OPENSSL_cleanse(token, sizeof(token));
	return reply_send(&reply, req, 201, err);
}
