// SPDX-License-Identifier: Apache-2.0
/* Creates, runs and batches of the caller's project that wait for room, in their order
 * (tenant/create_queue.h). */
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "api/nodes/node_rows.h"
#include "base/clock.h"
#include "tenant/create_queue.h"

#include <string.h>

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     2048 /* as many as a project may have */

struct listing {
	struct json_writer *w;
	const char *request_id; /* only this one; or NULL */
	const char *node;       /* of this one in a cluster; "" */
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
	if (l->node[0])
		json_put_str(w, "node", l->node);
	json_close_object(w);
}

static uint64_t waiting_here(const struct http_req *req)
{
	const struct api *api = http_app_arg(req);

	return create_queue_waiting(fleet_creates(api->fleet), caller_project(req));
}

static void put_own(struct http_req *req, struct json_writer *w)
{
	const struct api *api = http_app_arg(req);
	struct listing l = {.w = w,
	                    .request_id = http_query(req, "request"),
	                    .node = node_of_rows(req),
	                    .left = LIMIT_DEFAULT,
	                    .now_us = clock_steady_us()};

	if (http_query_u64(req, "limit", 1, LIMIT_MAX, &l.left, NULL) == 0)
		create_queue_each(fleet_creates(api->fleet), caller_project(req), put_one, &l);
}

/* Each node has a queue of its own, and positions are those of its queue. */
static void put_waiting(struct http_req *req, const struct peer_answers *answers,
                        struct json_writer *w)
{
	uint64_t n = waiting_here(req);

	for (size_t i = 0; i < answers->n; i++) {
		json_int_t there =
			json_integer_value(json_object_get(answers->at[i].body, "waiting"));

		n += there > 0 && there <= UINT32_MAX ? (uint64_t)there : 0;
	}
	json_put_u64(w, "waiting", n);
}

int list_creates(struct http_req *req, struct err *err)
{
	static const struct node_rows_kind kind = {.array = "creates",
	                                           .put_own = put_own,
	                                           .put_more = put_waiting,
	                                           .tells_node = true};
	struct json_writer *w;
	struct reply reply;
	uint64_t limit = 0; /* is read again for each part */
	int r = http_query_u64(req, "limit", 1, LIMIT_MAX, &limit, err);

	if (r == 0)
		r = node_rows_begin(req, &kind, err);
	if (r != 0)
		return r;
	w = reply_begin(&reply);
	json_put_u64(w, "waiting", waiting_here(req));
	json_open_array(w, "creates");
	put_own(req, w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}
