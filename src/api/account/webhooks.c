// SPDX-License-Identifier: Apache-2.0
/* Webhooks of the caller's project. */
#include "api/api.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#include <openssl/crypto.h>

static void put_hook(const struct hook *h, void *arg)
{
	hook_to_json(h, arg, NULL);
}

int list_webhooks(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reply reply;
	struct json_writer *w;

	w = reply_begin(&reply);
	json_open_array(w, "webhooks");
	hooks_each(api->hooks, caller_project(req), put_hook, w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

int create_webhook(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct hook_wish wish = {0};
	const struct json_field fields[] = {
		{"url", JSON_FIELD_STRING, &wish.url, /* required= */ true, .min = 1},
		{"types", JSON_FIELD_STRING, &wish.types, .min = 1, .max = 1024},
		{"secret", JSON_FIELD_STRING, &wish.secret, .min = 1, .max = 80},
	};
	const struct hook *h;
	char secret[HOOK_SECRET_SIZE];
	struct reply reply;
	struct json_writer *w;
	int r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);

	if (r == 0)
		r = hooks_add(api->hooks, caller_project(req), &wish, secret, &h, err);
	if (r < 0)
		return r;
	w = reply_begin(&reply);
	hook_to_json(h, w, "webhook");
	json_put_str(w, "secret", secret);
	OPENSSL_cleanse(secret, sizeof(secret));
	return reply_send(&reply, req, 201, err);
}

int get_webhook(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "webhook_id");
	const struct hook *h;
	struct reply reply;

	h = hooks_find(api->hooks, caller_project(req), id);
	if (!h)
		return err_set(err, ERR_NOT_FOUND, 0, "no webhook '%.64s'", id);
	hook_to_json(h, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

int update_webhook(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct hook_wish wish = {0};
	const struct json_field fields[] = {
		{"url", JSON_FIELD_STRING, &wish.url, .min = 1},
		{"types", JSON_FIELD_STRING, &wish.types, .max = 1024},
		{"secret", JSON_FIELD_STRING, &wish.secret, .min = 1, .max = 80},
	};
	const struct hook *h;
	struct reply reply;
	int r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);

	if (r == 0)
		r = hooks_change(api->hooks, caller_project(req), http_param(req, "webhook_id"),
		                 &wish, &h, err);
	if (r < 0)
		return r;
	hook_to_json(h, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

int delete_webhook(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "webhook_id");
	struct reply reply;
	int r = hooks_remove(api->hooks, caller_project(req), id, err);

	if (r < 0)
		return r;
	json_put_str(reply_begin(&reply), "id", id);
	return reply_send(&reply, req, 200, err);
}
