// SPDX-License-Identifier: Apache-2.0
/* Creates, runs and batches of the caller's project that wait for room, in their order
 * (tenant/create_queue.h). */
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "base/clock.h"
#include "tenant/create_queue.h"

#include <string.h>

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     2048 /* as many as a project may have */

struct listing {
	struct json_writer *w;
	const char *request_id; /* only this one; or NULL */
	uint64_t left, now_us;
};

static void put_one(const struct create_waiting *one, void *arg)
{
	struct listing *l = arg;
	struct json_writer *w = l->w;

	if (l->left == 0 || (l->request_id && strcmp(one->request_id, l->request_id) != 0))
		return;
	l->left--;
	json_open_object(w, NULL);
	json_put_str(w, "request_id", one->request_id);
	json_put_str(w, "batch_id", one->batch_id[0] ? one->batch_id : NULL);
	json_put_u64(w, "position", one->position);
	json_put_str(w, "why", err_code_name(one->why->code));
	json_put_strn(w, "message", one->why->message, strlen(one->why->message));
	json_put_u64(w, "waited_ms", (l->now_us - MIN(one->since_us, l->now_us)) / 1000);
	json_put_u64(w, "left_ms", (one->until_us - MIN(one->until_us, l->now_us)) / 1000);
	json_close_object(w);
}

int list_creates(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct create_queue *queue = fleet_creates(api->fleet);
	struct listing l = {.request_id = http_query(req, "request"),
	                    .left = LIMIT_DEFAULT,
	                    .now_us = clock_steady_us()};
	struct reply reply;
	int r = http_query_u64(req, "limit", 1, LIMIT_MAX, &l.left, err);

	if (r < 0)
		return r;
	l.w = reply_begin(&reply);
	json_put_u64(l.w, "waiting", create_queue_waiting(queue, caller_project(req)));
	json_open_array(l.w, "creates");
	create_queue_each(queue, caller_project(req), put_one, &l);
	json_close_array(l.w);
	return reply_send(&reply, req, 200, err);
}
