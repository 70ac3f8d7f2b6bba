// SPDX-License-Identifier: Apache-2.0
/* Secrets of the caller's project. A value goes in, and comes out of no route. */
#include "api/account/secrets.h"

#include "api/api.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "api/nodes/node_fresh.h"

struct listing {
	const struct secrets *secrets;
	struct json_writer *w;
};

static void put_one(const struct secret *s, void *arg)
{
	const struct listing *l = arg;

	secret_to_json(l->secrets, s, l->w, NULL);
}

int list_secrets(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reply reply;
	struct listing l = {api->secrets, NULL};

	if (node_fresh_look(req, NULL) > 0)
		return 0;
	l.w = reply_begin(&reply);
	json_open_array(l.w, "secrets");
	secrets_each(api->secrets, caller_project(req), put_one, &l);
	json_close_array(l.w);
	return reply_send(&reply, req, 200, err);
}

int get_secret(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct secret *s;
	struct reply reply;
	int r = secret_find_fresh(req, http_param(req, "secret"), &s, err);

	if (r != 0)
		return MIN(r, 0);
	secret_to_json(api->secrets, s, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

static int reply_set(struct http_req *req, const char *name, bool is_new, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct secret *s = secrets_find(api->secrets, caller_project(req), name);
	struct reply reply;

	if (!s)
		return err_set(err, ERR_GONE, 0, "the secret was removed at once");
	secret_to_json(api->secrets, s, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, is_new ? 201 : 200, err);
}

int put_secret(struct http_req *req, struct err *err)
{
	json_t *value = NULL, *hosts = NULL;
	const struct json_field fields[] = {
		{"value", JSON_FIELD_ANY, &value, .required = true},
		{"hosts", JSON_FIELD_ARRAY, &hosts},
	};
	int r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);

	if (r == 0 && !json_is_string(value))
		r = err_field(err, "value", "must be a string");
	return r < 0 ? r
	             : secret_put(req,
	                          &(struct secret_wish){.name = http_param(req, "secret"),
	                                                .value = json_string_value(value),
	                                                .len = json_string_length(value),
	                                                .hosts = hosts},
	                          reply_set, err);
}

static int reply_removed(struct http_req *req, const char *name, bool is_new, struct err *err)
{
	struct reply reply;

	(void)is_new;
	json_put_str(reply_begin(&reply), "name", name);
	return reply_send(&reply, req, 200, err);
}

int delete_secret(struct http_req *req, struct err *err)
{
	const char *name = http_param(req, "secret");
	bool is_forced = false;
	int r = http_query_bool(req, "force", &is_forced, err);

	if (r < 0)
		return r;
	return (is_forced ? secret_drop : secret_drop_unused)(req, name, reply_removed, err);
}
