// SPDX-License-Identifier: Apache-2.0
/*
 * What is refused at admission has had no effect, so its handler can be called again. It is, with
 * each answer of the database, until three seconds after the request began; then the client hears
 * the refusal.
 */
#include "api/account/quota_wait.h"

#include "api/api.h"
#include "api/frame/late_reply.h"
#include "base/clock.h"
#include "base/units.h"
#include "node/node.h"
#include "tenant/quota_lease.h"

#define FRESH_WAIT_US SECOND_US

static void on_answer(void *arg)
{
	struct http_req *req = late_reply_take(arg, NULL);

	if (req)
		http_go_on(req);
}

int quota_wait_refused(struct http_req *req, const struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct late_reply *late;

	if ((err->code != ERR_QUOTA && err->code != ERR_BUDGET) || !err->quota.is_asked ||
	    !node_is_in(api->node))
		return 0;
	late = late_reply_new(req, sizeof(*late));
	if (node_await_quota(api->node, http_begun_us(req) + QUOTA_HOPE_US, on_answer, late) == 0)
		return 1;
	return late_reply_drop(late, 0);
}

bool quota_wait_fresh(struct http_req *req, const struct quota_owner *owner)
{
	const struct api *api = http_app_arg(req);
	const uint64_t until_us = http_begun_us(req) + FRESH_WAIT_US;
	struct late_reply *late;

	if (!node_is_in(api->node) || node_check(api->node, NULL) < 0 ||
	    clock_steady_us() >= until_us || !quota_lease_refresh(api->quota, owner))
		return false;
	late = late_reply_new(req, sizeof(*late));
	if (node_await_quota(api->node, until_us, on_answer, late) == 0)
		return true;
	(void)late_reply_take(late, NULL);
	return false;
}
