// SPDX-License-Identifier: Apache-2.0
/*
 * In a cluster all nodes are to have the new state of a webhook before the caller hears of it: it
 * goes to the database, sealed, and comes into this node's tables with the answer. If another node
 * has changed the same one meanwhile, the call is made again.
 */
#include "api/account/hook_share.h"

#include "api/api.h"
#include "api/frame/access.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/nodes/node_fresh.h"
#include "node/sealed_records.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

enum share { SHARE_NEW, SHARE_CHANGE, SHARE_REMOVAL };

struct hook_wait {
	struct late_reply late;
	enum share what;
	char id[ID_SIZE];
	char secret[HOOK_SECRET_SIZE]; /* of a new one: shown this once */
};

static int reply_new(struct http_req *req, const struct hook *h, const char *secret,
                     struct err *err)
{
	struct reply reply;
	struct json_writer *w = reply_begin(&reply);

	hook_to_json(h, w, "webhook");
	json_put_str(w, "secret", secret);
	return reply_send(&reply, req, 201, err);
}

static int reply_changed(struct http_req *req, const struct hook *h, struct err *err)
{
	struct reply reply;

	hook_to_json(h, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

static int reply_removed(struct http_req *req, const char *id, struct err *err)
{
	struct reply reply;

	json_put_str(reply_begin(&reply), "id", id);
	return reply_send(&reply, req, 200, err);
}

static int reply_done(struct http_req *req, const struct hook_wait *w, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct hook *h = hooks_find(api->hooks, caller_project(req), w->id);

	if (w->what == SHARE_REMOVAL)
		return reply_removed(req, w->id, err);
	if (!h)
		return err_set(err, ERR_GONE, 0, "the webhook was removed at once");
	return w->what == SHARE_NEW ? reply_new(req, h, w->secret, err)
	                            : reply_changed(req, h, err);
}

static void on_shared(const struct err *failure, void *arg)
{
	struct hook_wait w = *(struct hook_wait *)arg;
	struct http_req *req;
	struct err err = {0};

	OPENSSL_cleanse(((struct hook_wait *)arg)->secret, sizeof(w.secret));
	req = late_reply_take(arg, NULL);
	if (!req || node_fresh_retry(req, failure)) {
		OPENSSL_cleanse(&w, sizeof(w));
		return;
	}
	if (failure)
		err = *failure;
	access_enter_again(req);
	if (failure || reply_done(req, &w, &err) < 0)
		http_reply_err(req, &err);
	access_leave(req);
	OPENSSL_cleanse(&w, sizeof(w));
}

/* content NULL: it is removed. */
static int share(struct http_req *req, enum share what, const char *id, const char *secret,
                 const char *content, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct hook_wait *w = late_reply_new(req, sizeof(*w));
	int r;

	w->what = what;
	(void)snprintf(w->id, sizeof(w->id), "%s", id);
	(void)snprintf(w->secret, sizeof(w->secret), "%s", secret);
	r = node_put_sealed(api->node,
	                    &(struct node_sealed){.kind = "webhook",
	                                          .id = id,
	                                          .project_id = caller_project(req),
	                                          .content = content},
	                    on_shared, w, err);
	return r < 0 ? late_reply_drop(w, r) : 0;
}

int hook_share_new(struct http_req *req, const struct hook_wish *wish, struct err *err)
{
	const struct api *api = http_app_arg(req);
	auto_call(sealed_text_wipe) char *content = NULL;
	char id[ID_SIZE], secret[HOOK_SECRET_SIZE] = "";
	const struct hook *h;
	int r;

	if (node_is_in(api->node)) {
		r = hooks_draft(api->hooks, caller_project(req), wish, id, secret, &content, err);
		if (r == 0)
			r = share(req, SHARE_NEW, id, secret, content, err);
	} else {
		r = hooks_add(api->hooks, caller_project(req), wish, secret, &h, err);
		if (r == 0)
			r = reply_new(req, h, secret, err);
	}
	OPENSSL_cleanse(secret, sizeof(secret));
	return r;
}

int hook_find_fresh(struct http_req *req, const struct hook **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "webhook_id");
	int r;

	*ret = hooks_find(api->hooks, caller_project(req), id);
	if (*ret)
		return 0;
	r = node_fresh_look(req, err);
	return r != 0 ? r : err_set(err, ERR_NOT_FOUND, 0, "no webhook '%.64s'", id);
}

int hook_share_change(struct http_req *req, const struct hook_wish *wish, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "webhook_id");
	auto_call(sealed_text_wipe) char *content = NULL;
	const struct hook *h;
	int r = hook_find_fresh(req, &h, err);

	if (r != 0)
		return MIN(r, 0);
	if (!node_is_in(api->node)) {
		r = hooks_change(api->hooks, caller_project(req), id, wish, &h, err);
		return r < 0 ? r : reply_changed(req, h, err);
	}
	r = node_fresh_look(req, err); /* what it had may be of another node */
	if (r != 0)
		return MIN(r, 0);
	r = hooks_draft_change(api->hooks, caller_project(req), id, wish, &content, err);
	return r < 0 ? r : share(req, SHARE_CHANGE, id, "", content, err);
}

int hook_share_removal(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "webhook_id");
	const struct hook *h;
	int r = hook_find_fresh(req, &h, err);

	if (r != 0)
		return MIN(r, 0);
	if (node_is_in(api->node))
		return share(req, SHARE_REMOVAL, id, "", NULL, err);
	r = hooks_remove(api->hooks, caller_project(req), id, err);
	return r < 0 ? r : reply_removed(req, id, err);
}
