// SPDX-License-Identifier: Apache-2.0
#include "api/frame/wake.h"

#include "api/frame/access.h"
#include "api/frame/late_reply.h"

static void go_on(struct sandbox *s, const struct err *err, void *arg)
{
	struct http_req *req = late_reply_take(arg, err);
	struct err failure;

	(void)s;
	if (!req)
		return;
	access_enter_again(req);
	if (http_route(req)->fn(req, &failure) < 0)
		http_reply_err(req, &failure);
	access_leave(req);
}

int wake_sandbox(struct http_req *req, struct sandbox *s, struct err *err)
{
	struct late_reply *late;
	int r;

	if (!sandbox_wakes_by_call(s))
		return 0;
	late = late_reply_new(req, sizeof(*late));
	r = sandbox_resume(s, go_on, late, err);
	return r == 0 ? 1 : late_reply_drop(late, r);
}

int find_awake(struct http_req *req, struct sandbox **ret, struct err *err)
{
	int r = find_sandbox(req, ret, err);

	return r < 0 ? r : wake_sandbox(req, *ret, err);
}

int wait_for_end(struct http_req *req, struct sandbox *s)
{
	sandbox_await_end(s, go_on, late_reply_new(req, sizeof(struct late_reply)));
	return 1;
}
