// SPDX-License-Identifier: Apache-2.0
/* Webhooks of the caller's project. */
#include "api/account/hook_share.h"

#include "api/api.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "api/nodes/node_fresh.h"

static void put_hook(const struct hook *h, void *arg)
{
	hook_to_json(h, arg, NULL);
}

int list_webhooks(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reply reply;
	struct json_writer *w;

	if (node_fresh_look(req, NULL) > 0)
		return 0;
	w = reply_begin(&reply);
	json_open_array(w, "webhooks");
	hooks_each(api->hooks, caller_project(req), put_hook, w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

int create_webhook(struct http_req *req, struct err *err)
{
	struct hook_wish wish = {0};
	const struct json_field fields[] = {
		{"url", JSON_FIELD_STRING, &wish.url, /* required= */ true, .min = 1},
		{"types", JSON_FIELD_STRING, &wish.types, .min = 1, .max = 1024},
		{"secret", JSON_FIELD_STRING, &wish.secret, .min = 1, .max = 80},
	};
	int r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);

	return r < 0 ? r : hook_share_new(req, &wish, err);
}

int get_webhook(struct http_req *req, struct err *err)
{
	const struct hook *h;
	struct reply reply;
	int r = hook_find_fresh(req, &h, err);

	if (r != 0)
		return MIN(r, 0);
	hook_to_json(h, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

int update_webhook(struct http_req *req, struct err *err)
{
	struct hook_wish wish = {0};
	const struct json_field fields[] = {
		{"url", JSON_FIELD_STRING, &wish.url, .min = 1},
		{"types", JSON_FIELD_STRING, &wish.types, .max = 1024},
		{"secret", JSON_FIELD_STRING, &wish.secret, .min = 1, .max = 80},
	};
	int r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);

	return r < 0 ? r : hook_share_change(req, &wish, err);
}

int delete_webhook(struct http_req *req, struct err *err)
{
	return hook_share_removal(req, err);
}
