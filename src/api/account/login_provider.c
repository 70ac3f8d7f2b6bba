// SPDX-License-Identifier: Apache-2.0
/*
 * The browser's way to the login provider and back. Both ends are addresses that a person goes to,
 * so a page of another site can send somebody there: what was begun is in a cookie, sealed
 * (person/login_flow.h), and a return without the very cookie is refused. That cookie is Lax, since
 * the provider is another site; the login's own is Strict, as all others.
 *
 * Whatever goes wrong, the person comes back to the login page with a word from a closed list.
 */
#include "api/account/login.h"

#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "base/clock.h"
#include "base/log.h"
#include "http/target.h"

#include <inttypes.h>
#include <string.h>

#define STATE        "cloche_state"
#define STATE_SECURE "__Host-cloche_state"
#define STATE_SIZE   2048

static const char *state_name(const struct http_req *req)
{
	return http_is_tls(req) ? STATE_SECURE : STATE;
}

static char *redirect_url(const struct api *api)
{
	const size_t len = strlen(api->preview_url);
	const bool has_slash = len > 0 && api->preview_url[len - 1] == '/';

	return xasprintf("%.*s/v1/login/oidc/callback", (int)(len - has_slash), api->preview_url);
}

static void go(struct http_req *req, const char *url)
{
	http_reply_header(req, "Location", url);
	http_reply_header(req, "Cache-Control", "no-store");
	http_reply_header(req, "Referrer-Policy", "no-referrer");
	http_reply(req, 303, "text/plain", "", 0);
}

static void tell_refused(const struct http_req *req, enum login_problem problem)
{
	const struct api *api = http_app_arg(req);
	struct event e;
	struct json_writer *w;

	event_log_set_origin(api->events,
	                     &(struct event_origin){.request_id = http_request_id(req),
	                                            .client = http_peer(req),
	                                            .agent = http_header(req, "User-Agent")});
	w = event_begin(&e, api->events, EVENT_PERSON_REFUSED, NULL, NULL);
	json_put_str(w, "why", login_problem_word(problem));
	event_end(&e);
	event_log_set_origin(api->events, &(struct event_origin){0});
}

static void go_back(struct http_req *req, enum login_problem problem)
{
	char url[64];

	(void)snprintf(url, sizeof(url), "/?problem=%s", login_problem_word(problem));
	tell_refused(req, problem);
	go(req, url);
}

static void on_started(const struct login_step *step, void *arg)
{
	struct http_req *req = late_reply_take(arg, NULL);

	if (!req)
		return;
	if (step->problem != LOGIN_FINE) {
		go_back(req, step->problem);
		return;
	}
	login_cookie_set(req, state_name(req), step->sealed, LOGIN_FLOW_US / SECOND_US, "Lax");
	go(req, step->url);
}

int start_provider_login(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	auto_free char *url = redirect_url(api);

	if (!api->people)
		return login_problem_set(LOGIN_NOT_SET_UP, err);
	login_flow_start(api->people, url, on_started,
	                 late_reply_new(req, sizeof(struct late_reply)));
	return 0;
}

static void on_finished(const struct login_step *step, void *arg)
{
	struct http_req *req = late_reply_take(arg, NULL);
	uint64_t now_us = clock_wall_us(), expires_us;

	if (!req)
		return; /* the session ends by itself: nobody has its token */
	login_cookie_set(req, state_name(req), "", 0, "Lax");
	if (step->problem != LOGIN_FINE) {
		go_back(req, step->problem);
		return;
	}
	expires_us = person_session_expires_us(step->session);
	login_cookie_set(req, login_cookie_name(req), step->token,
	                 expires_us > now_us ? (expires_us - now_us) / SECOND_US : 0, "Strict");
	go(req, "/");
}

int finish_provider_login(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	auto_free char *url = redirect_url(api);
	char sealed[STATE_SIZE];
	const bool has_cookie =
		login_cookie_find(req, state_name(req), sealed, sizeof(sealed)) == 1;
	const struct login_return back = {.sealed = has_cookie ? sealed : NULL,
	                                  .state = http_query(req, "state"),
	                                  .code = http_query(req, "code"),
	                                  .iss = http_query(req, "iss"),
	                                  .error = http_query(req, "error"),
	                                  .redirect_url = url};

	if (!api->people)
		return login_problem_set(LOGIN_NOT_SET_UP, err);
	login_flow_finish(api->people, &back, on_finished,
	                  late_reply_new(req, sizeof(struct late_reply)));
	return 0;
}

/* The provider's own word that a session is over (OpenID Connect Back-Channel Logout). */

struct logout {
	struct late_reply late;
	struct buf body;
};

static void on_ended(const struct login_step *step, void *arg)
{
	struct logout *logout = arg;
	struct err err = {0};
	struct http_req *req;

	buf_done(&logout->body);
	if (step->problem == LOGIN_UNREACHABLE || step->problem == LOGIN_BUSY)
		(void)!login_problem_set(step->problem, &err);
	else if (step->problem != LOGIN_FINE) /* what the specification asks for: 400 */
		(void)!err_set(&err, ERR_BAD_REQUEST, 0, "%s",
		               login_problem_message(step->problem));
	req = late_reply_take(logout, step->problem == LOGIN_FINE ? NULL : &err);
	if (!req)
		return;
	log_info("login.ended_by_provider", "sessions=%zu", step->n_ended);
	http_reply_header(req, "Cache-Control", "no-store");
	http_reply(req, 200, "text/plain", "", 0);
}

static void refuse_body(struct logout *logout)
{
	struct err err;

	buf_done(&logout->body);
	(void)!err_set(&err, ERR_BAD_REQUEST, 0,
	               "the body must be logout_token=TOKEN, as a form has it");
	(void)late_reply_take(logout, &err);
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct logout *logout = arg;
	const struct api *api = http_app_arg(req);
	struct http_target form;
	auto_free char *target = NULL;

	if (data) {
		if (buf_append(&logout->body, data, len) < 0)
			refuse_body(logout);
		return;
	}
	/* A form is what a query is. */
	target = xasprintf("/?%s", buf_str(&logout->body));
	if (http_target_parse(target, &form, NULL) < 0) {
		refuse_body(logout);
		return;
	}
	if (form.n_pairs == 1 && strcmp(form.pairs[0].name, "logout_token") == 0)
		login_flow_end(api->people, form.pairs[0].value, on_ended, logout);
	else
		refuse_body(logout);
	http_target_done(&form);
}

int end_provider_login(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct logout *logout;

	if (!api->people)
		return login_problem_set(LOGIN_NOT_SET_UP, err);
	logout = late_reply_new(req, sizeof(*logout));
	buf_init(&logout->body, LOGOUT_BODY_MAX);
	http_on_body(req, on_body, logout);
	return 0;
}
