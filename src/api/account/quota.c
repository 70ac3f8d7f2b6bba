// SPDX-License-Identifier: Apache-2.0
/*
 * Quotas. Anyone may see what holds for themselves. A project's are set by admins of the project
 * "default" alone, since they bound what the project's own admins can do; a key's by its project's.
 */
#include "tenant/quota.h"
#include "api/account/quota_wait.h"
#include "api/frame/access.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#include <stdio.h>
#include <string.h>

/* As it is for the owner now, so that a change of a default shows too. */
static void tell_changed(const struct api *api, const struct quota_owner *owner)
{
	struct event e;

	quota_to_json(api->quota, owner,
	              event_begin(&e, api->events, EVENT_QUOTA_CHANGED, owner->project_id, NULL),
	              "quota");
	event_end(&e);
}

static int reply_quota(struct http_req *req, const struct quota_owner *owner, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reply reply;

	quota_to_json(api->quota, owner, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

int get_quota(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct quota_owner owner = {.project_id = caller_project(req),
	                            .key_id = key_id(http_user(req))};
	struct reply reply;
	struct json_writer *w;

	if (quota_wait_fresh(req, &owner))
		return 0;
	owner.key_id = "";
	w = reply_begin(&reply);
	quota_to_json(api->quota, &owner, w, "project");
	owner.key_id = key_id(http_user(req));
	if (owner.key_id[0])
		quota_to_json(api->quota, &owner, w, "key");
	else
		json_put_null(w, "key");
	return reply_send(&reply, req, 200, err);
}

/* The project of the path: the caller's own, or any for who rules all. */
static int find_path_project(const struct http_req *req, struct quota_owner *ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_param(req, "project_id");
	const char *id = keyring_find_project(api->keyring, name);
	int r = 0;

	if (!id || strcmp(id, caller_project(req)) != 0)
		r = find_project(req, name, &id, err);
	if (r == 0)
		*ret = (struct quota_owner){.project_id = id, .key_id = ""};
	return r;
}

int get_project_quota(struct http_req *req, struct err *err)
{
	struct quota_owner owner;
	int r = find_path_project(req, &owner, err);

	if (r == 0 && quota_wait_fresh(req, &owner))
		return 0;
	return r < 0 ? r : reply_quota(req, &owner, err);
}

/* In a cluster: one that the others are to hear of first. */
struct quota_wait {
	struct late_reply late;
	const struct api *api;
	char project_id[ID_SIZE], key_id[ID_SIZE];
	struct quota_setting setting;
};

static int set_here(struct http_req *req, const struct quota_owner *owner,
                    const struct quota_setting *setting, struct err *err);

static void on_shared(const struct err *failure, void *arg)
{
	const struct quota_wait w = *(struct quota_wait *)arg;
	const struct quota_owner owner = {w.project_id, w.key_id};
	struct http_req *req = late_reply_take(arg, failure);
	struct err err = {0};

	if (!req) /* it comes with the changes */
		return;
	access_enter_again(req);
	if (set_here(req, &owner, &w.setting, &err) < 0)
		http_reply_err(req, &err);
	access_leave(req);
}

static int set_quota(struct http_req *req, const struct quota_owner *owner,
                     const struct quota_setting *setting, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct quota_wait *w;
	int r;

	if (!node_is_in(api->node))
		return set_here(req, owner, setting, err);
	r = node_check(api->node, err);
	if (r == 0)
		r = quota_setting_check(owner, setting, err);
	if (r < 0)
		return r;
	w = late_reply_new(req, sizeof(*w));
	w->api = api;
	w->setting = *setting;
	(void)snprintf(w->project_id, sizeof(w->project_id), "%s", owner->project_id);
	(void)snprintf(w->key_id, sizeof(w->key_id), "%s", owner->key_id);
	node_put_record(api->node,
	                &(struct node_record){.kind = "quota",
	                                      .id = w->key_id[0] ? w->key_id : w->project_id,
	                                      .project_id = w->project_id,
	                                      .record = unconst(http_json(req))},
	                on_shared, w);
	return 0;
}

static int set_here(struct http_req *req, const struct quota_owner *owner,
                    const struct quota_setting *setting, struct err *err)
{
	const struct api *api = http_app_arg(req);
	int r = quota_set(api->quota, owner, setting, err);

	if (r < 0)
		return r;
	tell_changed(api, owner);
	return reply_quota(req, owner, err);
}

int set_project_quota(struct http_req *req, struct err *err)
{
	struct quota_setting setting;
	struct quota_owner owner;
	int r = check_is_default(req, err);

	if (r == 0)
		r = quota_setting_read(http_json(req), &setting, err);
	if (r == 0)
		r = find_path_project(req, &owner, err);
	return r < 0 ? r : set_quota(req, &owner, &setting, err);
}

static int find_path_key(const struct http_req *req, struct quota_owner *ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "key_id");
	const struct key *key;
	int r = find_project(req, http_query(req, "project"), &ret->project_id, err);

	if (r < 0)
		return r;
	key = keyring_find_key(api->keyring, ret->project_id, id);
	if (!key)
		return err_set(err, ERR_NOT_FOUND, 0, "no key '%.64s'", id);
	ret->key_id = key_id(key);
	return 0;
}

int get_key_quota(struct http_req *req, struct err *err)
{
	struct quota_owner owner;
	int r = find_path_key(req, &owner, err);

	if (r == 0 && quota_wait_fresh(req, &owner))
		return 0;
	return r < 0 ? r : reply_quota(req, &owner, err);
}

int set_key_quota(struct http_req *req, struct err *err)
{
	struct quota_setting setting;
	struct quota_owner owner;
	int r = quota_setting_read(http_json(req), &setting, err);

	if (r == 0)
		r = find_path_key(req, &owner, err);
	return r < 0 ? r : set_quota(req, &owner, &setting, err);
}
