// SPDX-License-Identifier: Apache-2.0
#include "api/sandboxes/create_wait.h"

#include "api/frame/access.h"
#include "api/frame/body.h"
#include "api/frame/find.h"
#include "base/clock.h"
#include "base/parse.h"
#include "tenant/create_queue.h"

struct waiting {
	struct http_req *req;
	create_fn make;
	struct create_waiter *waiter;
};

static void on_client_gone(void *arg)
{
	struct waiting *w = arg;

	create_queue_leave(w->waiter);
	free(w);
}

static int make(void *arg, struct err *err)
{
	struct waiting *w = arg;
	struct http_req *req = w->req;
	uint64_t wait_ms;
	int r;

	http_on_done(req, NULL, NULL); /* what is made may want to know of it instead */
	access_enter_again(req);
	r = w->make(req, &wait_ms, err);
	access_leave(req);
	if (r >= 0)
		free(w);
	else
		http_on_done(req, on_client_gone, w);
	return r;
}

static void give_up(const struct err *err, void *arg)
{
	struct waiting *w = arg;

	http_on_done(w->req, NULL, NULL);
	http_reply_err(w->req, err);
	free(w);
}

static const struct create_waiter_ops ops = {make, give_up};

/* An entry tells of it, so that who watches a project sees what it waits for. */
static void tell(const struct http_req *req, const struct waiting *w, uint64_t wait_ms,
                 const struct err *why)
{
	const struct api *api = http_app_arg(req);
	struct event e;
	struct json_writer *writer =
		event_begin(&e, api->events, EVENT_CREATE_QUEUED, caller_project(req), NULL);

	json_put_u64(writer, "position", create_waiter_position(w->waiter));
	json_put_u64(writer, "waiting",
	             create_queue_waiting(fleet_creates(api->fleet), caller_project(req)));
	json_put_str(writer, "why", err_code_name(why->code));
	json_put_u64(writer, "wait_ms", wait_ms);
	event_end(&e);
}

int create_wait_foreign(const struct http_req *req, uint64_t *ret_wait_ms, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *text = http_header(req, CREATE_WAIT_HEADER);

	*ret_wait_ms = api->compat_wait_ms;
	if (text && parse_u64(text, WAIT_MS_MAX, ret_wait_ms) < 0)
		return err_field(err, CREATE_WAIT_HEADER,
		                 "must be a number of milliseconds, an hour at most");
	return 0;
}

static int make_or_wait(struct http_req *req, create_fn make_now, bool is_placed, struct err *err)
{
	const struct api *api = http_app_arg(req);
	uint64_t wait_ms = 0;
	struct waiting *w;
	struct err why;
	int r = make_now(req, &wait_ms, &why);
	const struct create_wait wait = {.project_id = caller_project(req),
	                                 .key_id = key_id(http_user(req)),
	                                 .request_id = http_request_id(req),
	                                 .until_us = http_begun_us(req) + wait_ms * 1000,
	                                 .why = &why};

	if (r < 0 && is_placed && api->place) {
		struct err refused = why;
		int placed = api->place(req, &refused, &why);

		r = placed != 0 ? placed : r;
	}
	if (r >= 0)
		return r;
	if (!create_queue_helps(&why) || wait.until_us <= clock_steady_us()) {
		*err = why;
		return r;
	}
	w = xnew0(struct waiting);
	*w = (struct waiting){.req = req, .make = make_now};
	r = create_queue_join(fleet_creates(api->fleet), &wait, &ops, w, &w->waiter, err);
	if (r < 0) {
		free(w);
		return r;
	}
	http_on_done(req, on_client_gone, w);
	tell(req, w, wait_ms, &why);
	return 1;
}

int create_or_wait(struct http_req *req, create_fn make_now, struct err *err)
{
	return make_or_wait(req, make_now, /* is_placed= */ true, err);
}

int create_or_wait_here(struct http_req *req, create_fn make_now, struct err *err)
{
	return make_or_wait(req, make_now, /* is_placed= */ false, err);
}
