// SPDX-License-Identifier: Apache-2.0
/* Shows, stops and snapshots sessions, and gives them more time or another policy. */
#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"

#include "compat/vercel/handlers.h"
#include "compat/vercel/policy.h"
#include "compat/vercel/wire.h"
#include "sandbox/network/network.h"

#include <stdio.h>
#include <string.h>

#define LIST_DEFAULT 20
#define LIST_MAX     50
#define TIMEOUT_MAX  UINT64_C(86400000) /* of a session in all, as with theirs */

static void put_item(struct json_writer *w, const void *object)
{
	put_session(w, NULL, object);
}

static void collect(struct http_req *req, const struct page_query *q, struct page_items *ret)
{
	const struct vercel *v = vercel_of(req);

	list_for_each (&v->sandboxes, const struct vercel_sandbox, box, link) {
		if (box->is_unnamed || strcmp(box->project_id, caller_project(req)) != 0 ||
		    strcmp(box->space, space_of(req)) != 0 ||
		    (q->name && strcmp(box->name, q->name) != 0))
			continue;
		list_for_each (&box->sessions, const struct vercel_session, s, link)
			page_add(ret, s->id, s, s->requested_ms, NULL);
	}
}

int vercel_list_sessions(struct http_req *req, struct err *err)
{
	static const struct page_kind kind = {.array = "sessions",
	                                      .id_field = "id",
	                                      .sorts = {"requestedAt"},
	                                      .limit_default = LIST_DEFAULT,
	                                      .limit_max = LIST_MAX,
	                                      .collect = collect,
	                                      .put = put_item};

	return page_list(req, &kind, err);
}

int vercel_get_session(struct http_req *req, struct err *err)
{
	struct json_writer *w;
	struct reply reply;
	struct vercel_session *s;
	int r = find_session(req, &s, err);

	if (r < 0)
		return r;
	w = reply_begin(&reply);
	put_session(w, "session", s);
	put_routes(w, "routes", s->sandbox);
	return reply_send(&reply, req, 200, err);
}

/* A request that waits for its session to end, or for its policy. */
struct waiting {
	struct late_reply late;
	char session_id[ID_SIZE];
	bool is_snapshot;
};

static struct waiting *waiting_new(struct http_req *req, const struct vercel_session *s)
{
	struct waiting *w = late_reply_new(req, sizeof(*w));

	memcpy(w->session_id, s->id, sizeof(w->session_id));
	return w;
}

static int reply_stopped(struct http_req *req, const struct vercel_session *s, bool is_snapshot,
                         struct err *err)
{
	const struct vercel_sandbox *box = s->sandbox;
	const struct vercel_snapshot *snapshot =
		box->taken_id[0] ? vercel_snapshot_find(box->vercel, box->project_id, box->taken_id)
				 : NULL;
	struct json_writer *w;
	struct reply reply;

	if (is_snapshot && !snapshot && box->is_doomed)
		return err_set(err, ERR_NOT_FOUND, 0, "the sandbox was deleted meanwhile");
	if (is_snapshot && !snapshot)
		return err_set(err, ERR_INTERNAL, 0, "no snapshot could be made of the sandbox");
	w = reply_begin(&reply);
	put_session(w, "session", s);
	if (!is_snapshot)
		put_vercel_sandbox(w, "sandbox", box);
	if (snapshot && strcmp(snapshot->session_id, s->id) == 0)
		put_vercel_snapshot(w, "snapshot", snapshot);
	return reply_send(&reply, req, is_snapshot ? 201 : 200, err);
}

static void on_stopped(struct vercel_sandbox *box, const struct err *err, void *arg)
{
	struct waiting w = *(struct waiting *)arg;
	struct http_req *req = late_reply_take(arg, err);
	struct vercel_session *s = NULL;
	struct err failure;
	int r;

	if (!req)
		return;
	if (box)
		HASH_FIND_STR(box->vercel->sessions, w.session_id, s);
	r = s ? reply_stopped(req, s, w.is_snapshot, &failure)
	      : err_set(&failure, ERR_NOT_FOUND, 0, "the session was deleted");
	if (r < 0)
		http_reply_err(req, &failure);
}

int vercel_stop_session(struct http_req *req, struct err *err)
{
	const struct vercel_sandbox_stop how = {0};
	struct vercel_session *s;
	int r = find_session(req, &s, err);

	if (r < 0)
		return r;
	if (s->is_over)
		return reply_stopped(req, s, /* is_snapshot= */ false, err);
	vercel_sandbox_stop(s->sandbox, &how, on_stopped, waiting_new(req, s));
	return 0;
}

int vercel_snapshot_session(struct http_req *req, struct err *err)
{
	struct vercel_sandbox_stop how = {.is_snapshot = true};
	const struct json_field fields[] = {{"expiration", JSON_FIELD_U64, &how.expires_ms,
	                                     .max = TIMEOUT_MS_MAX, .ret_given = &how.has_expiry}};
	struct sandbox *native;
	struct waiting *w;
	struct vercel_session *s;
	int r = body_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);

	if (r == 0)
		r = find_running(req, &s, &native, err);
	if (r != 0)
		return r;
	w = waiting_new(req, s);
	w->is_snapshot = true;
	vercel_sandbox_stop(s->sandbox, &how, on_stopped, w);
	return 0;
}

static int reply_session(struct http_req *req, const struct vercel_session *s, struct err *err)
{
	struct reply reply;

	put_session(reply_begin(&reply), "session", s);
	return reply_send(&reply, req, 200, err);
}

int vercel_extend_session(struct http_req *req, struct err *err)
{
	uint64_t ms = 0;
	const struct json_field fields[] = {
		{"duration", JSON_FIELD_U64, &ms, true, .min = 1, .max = TIMEOUT_MS_MAX}};
	struct sandbox *native;
	struct vercel_session *s;
	int r = find_running(req, &s, &native, err);

	if (r != 0)
		return r;
	r = http_json(req) ? body_read(http_json(req), "", fields, ARRAY_SIZE(fields), err)
	                   : err_field(err, "duration", "is missing");
	if (r < 0)
		return r;
	r = s->timeout_ms + ms > TIMEOUT_MAX
	            ? err_field(err, "duration", "a session lasts up to 24 hours")
	            : sandbox_extend(native, ms, err);
	if (r < 0 && err->code == ERR_INVALID_FIELD) {
		vercel_refuse(req, 400, "sandbox_timeout_invalid", err->message);
		return 1;
	}
	if (r < 0)
		return r;
	s->timeout_ms += ms;
	s->sandbox->updated_ms = vercel_now_ms();
	vercel_sandbox_note(s->sandbox);
	return reply_session(req, s, err);
}

static void on_policy(struct sandbox *native, const struct err *err, void *arg)
{
	struct waiting w = *(struct waiting *)arg;
	struct http_req *req = late_reply_take(arg, err);
	struct err failure;
	struct vercel_session *s;
	int r;

	(void)native;
	if (!req)
		return;
	HASH_FIND_STR(vercel_of(req)->sessions, w.session_id, s);
	r = s ? reply_session(req, s, &failure)
	      : err_set(&failure, ERR_NOT_FOUND, 0, "the session was deleted");
	if (r < 0)
		http_reply_err(req, &failure);
}

/* Keeps the policy as the sandbox's own, so that later sessions have it too. */
static void keep_policy(struct vercel_sandbox *box, json_t *theirs)
{
	json_decref(box->config.policy);
	box->config.policy = theirs;
	free(take_ptr(box->config.locked));
	box->updated_ms = vercel_now_ms();
	vercel_sandbox_note(box);
}

int vercel_set_policy(struct http_req *req, struct err *err)
{
	auto_json json_t *theirs = NULL, *native_policy = NULL;
	struct policy *policy = NULL;
	struct sandbox *native;
	struct waiting *w;
	struct vercel_session *s;
	int r = find_running(req, &s, &native, err);

	if (r != 0)
		return r;
	r = policy_read_theirs(http_json(req), &theirs, err);
	if (r == 0)
		r = policy_to_native(theirs, &native_policy, err);
	if (r == 0)
		r = network_read(native_policy, "networkPolicy", &policy, err);
	if (r < 0)
		return r;
	w = waiting_new(req, s);
	r = network_change(native, policy, on_policy, w, err);
	if (r < 0)
		return late_reply_drop(w, r);
	keep_policy(s->sandbox, json_incref(theirs));
	return 0;
}
