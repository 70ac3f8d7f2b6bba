// SPDX-License-Identifier: Apache-2.0
#include "api/nodes/node_fresh.h"

#include "api/api.h"
#include "api/frame/late_reply.h"
#include "base/clock.h"
#include "base/units.h"
#include "node/sealed_records.h"
#include "secret/secret.h"

#define HOPE_US (3 * SECOND_US)

static void on_fresh(void *arg)
{
	struct http_req *req = late_reply_take(arg, NULL);

	if (req)
		http_go_on(req);
}

static enum node_ask ask(struct http_req *req, uint64_t since_us)
{
	const struct api *api = http_app_arg(req);
	struct late_reply *late = late_reply_new(req, sizeof(*late));
	const enum node_ask answer = node_ask_fresh(api->node, since_us, on_fresh, late);

	if (answer != NODE_ASK_WAIT)
		(void)late_reply_take(late, NULL);
	return answer;
}

static bool may_wait(const struct http_req *req)
{
	const struct api *api = http_app_arg(req);

	return node_is_in(api->node) && clock_steady_us() < http_begun_us(req) + HOPE_US;
}

int node_fresh_look(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);

	if (!node_is_in(api->node))
		return 0;
	if (may_wait(req))
		switch (ask(req, http_begun_us(req))) {
		case NODE_ASK_WAIT:
			return 1;
		case NODE_ASK_UNKNOWN:
			return 0;
		case NODE_ASK_CUT:
			break;
		}
	return node_refuse(err, "this node does not know it, and cannot ask whether another does");
}

bool node_fresh_retry(struct http_req *req, const struct err *err)
{
	return err && err->errnum == NODE_CHANGED_MEANWHILE && may_wait(req) &&
	       ask(req, clock_steady_us()) == NODE_ASK_WAIT;
}

int node_fresh_refused(struct http_req *req, const struct err *err)
{
	struct err why = {0};
	int r;

	if (err->errnum != SECRET_UNKNOWN)
		return 0;
	r = node_fresh_look(req, &why);
	if (r < 0)
		http_reply_err(req, &why);
	return r != 0;
}
