// SPDX-License-Identifier: Apache-2.0
/*
 * The command line's login: somebody confirms a short code at the provider, with any browser. The
 * daemon stands between, so the client needs neither the provider's address nor its secret; and
 * keeps nothing, so beginning without end fills nothing (person/login_flow.h).
 */
#include "api/account/login.h"

#include "api/frame/late_reply.h"
#include "api/frame/refuse.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#include <string.h>

#define SEALED_MAX 4096

/* The error of a problem, or NULL. */
static const struct err *err_of(const struct login_step *step, struct err *err)
{
	if (step->problem == LOGIN_FINE)
		return NULL;
	(void)!login_problem_set(step->problem, err);
	return err;
}

static void on_begun(const struct login_step *step, void *arg)
{
	struct err err = {0};
	struct http_req *req = late_reply_take(arg, err_of(step, &err));
	struct reply reply;
	struct json_writer *w;

	if (!req)
		return;
	w = reply_begin(&reply);
	json_put_str(w, "device", step->device.sealed);
	json_put_str(w, "user_code", step->device.user_code);
	json_put_str(w, "verification_url", step->device.url);
	json_put_str(w, "complete_url", step->device.whole_url);
	json_put_u64(w, "interval_ms", step->device.interval_s * 1000);
	json_put_u64(w, "expires_us", step->device.expires_us);
	reply_send_late(&reply, req, 201);
}

int create_device_login(struct http_req *req, struct err *err)
{
	struct api *api = http_app_arg(req);

	if (!api->people)
		return login_problem_set(LOGIN_NOT_SET_UP, err);
	login_flow_device(api->people, on_begun, late_reply_new(req, sizeof(struct late_reply)));
	return 0;
}

static void put_token(struct http_req *req, const struct login_step *step)
{
	const struct api *api = http_app_arg(req);
	const struct key *key =
		person_session_key(login_flow_sessions(api->people), step->session, NULL);
	struct reply reply;
	struct json_writer *w = reply_begin(&reply);

	json_put_str(w, "status", "done");
	json_put_str(w, "token", step->token);
	if (key)
		login_put_who(w, req, key, step->session, person_session_expires_us(step->session));
	http_reply_header(req, "Cache-Control", "no-store");
	reply_send_late(&reply, req, 200);
}

static void on_polled(const struct login_step *step, void *arg)
{
	const bool is_pending = step->problem == LOGIN_PENDING;
	struct err err = {0};
	struct http_req *req = late_reply_take(arg, is_pending ? NULL : err_of(step, &err));
	struct reply reply;
	struct json_writer *w;

	if (!req)
		return;
	if (!is_pending) {
		put_token(req, step);
		return;
	}
	w = reply_begin(&reply);
	json_put_str(w, "status", "pending");
	json_put_bool(w, "is_slow_down", step->is_slow_down);
	reply_send_late(&reply, req, 202);
}

int poll_device_login(struct http_req *req, struct err *err)
{
	struct api *api = http_app_arg(req);
	const char *device = NULL;
	const struct json_field fields[] = {
		{"device", JSON_FIELD_STRING, &device, /* required= */ true, .min = 1,
	         .max = SEALED_MAX},
	};
	int r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	if (!api->people)
		return login_problem_set(LOGIN_NOT_SET_UP, err);
	login_flow_poll(api->people, device, on_polled,
	                late_reply_new(req, sizeof(struct late_reply)));
	return 0;
}
