// SPDX-License-Identifier: Apache-2.0
#include "api/frame/wake.h"

struct hold {
	struct http_req *req; /* NULL: the client is gone */
};

static void on_client_done(struct http_req *req, bool whole, void *arg)
{
	(void)req;
	(void)whole;
	((struct hold *)arg)->req = NULL;
}

static void go_on(struct sandbox *s, const struct err *err, void *arg)
{
	struct hold hold = *(struct hold *)arg;
	struct err failure;

	(void)s;
	free(arg);
	if (!hold.req)
		return;
	http_on_done(hold.req, NULL, NULL);
	if (err)
		http_reply_err(hold.req, err);
	else if (http_route(hold.req)->fn(hold.req, &failure) < 0)
		http_reply_err(hold.req, &failure);
}

static struct hold *hold_new(struct http_req *req)
{
	struct hold *hold = xnew0(struct hold);

	hold->req = req;
	http_on_done(req, on_client_done, hold);
	return hold;
}

int wake_sandbox(struct http_req *req, struct sandbox *s, struct err *err)
{
	struct hold *hold;
	int r;

	if (!sandbox_wakes_by_call(s))
		return 0;
	hold = hold_new(req);
	r = sandbox_resume(s, go_on, hold, err);
	if (r == 0)
		return 1;
	http_on_done(req, NULL, NULL);
	free(hold);
	return r;
}

int find_awake(struct http_req *req, struct sandbox **ret, struct err *err)
{
	int r = find_sandbox(req, ret, err);

	return r < 0 ? r : wake_sandbox(req, *ret, err);
}

int wait_for_end(struct http_req *req, struct sandbox *s)
{
	sandbox_await_end(s, go_on, hold_new(req));
	return 1;
}
