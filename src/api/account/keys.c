// SPDX-License-Identifier: Apache-2.0
/*
 * Keys. An admin rules over those of its own project; an admin of the project "default" over all.
 */
#include "api/api.h"
#include "api/frame/access.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#include "base/clock.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES_MAX 64
#define EXPIRY_MAX_MS  (UINT64_C(10) * 365 * 24 * 3600 * 1000)

static void put_key(const struct key *key, void *arg)
{
	key_to_json(key, arg, NULL);
}

int list_keys(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *project_id;
	struct reply reply;
	struct json_writer *w;
	int r = find_project(req, http_query(req, "project"), &project_id, err);

	if (r < 0)
		return r;
	w = reply_begin(&reply);
	json_open_array(w, "keys");
	keyring_each(api->keyring, project_id, put_key, w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

static int read_key_body(const json_t *body, const char **ret_name, enum key_scope *ret_scope,
                         const char **ret_project, uint64_t *ret_expires_us, struct err *err)
{
	const char *scope = "write";
	uint64_t expires_in_ms = 0;
	const struct json_field fields[] = {
		{"name", JSON_FIELD_STRING, ret_name, /* required= */ true, .min = 1,
	         .max = NAME_BYTES_MAX},
		{"scope", JSON_FIELD_STRING, &scope},
		{"project", JSON_FIELD_STRING, ret_project, .min = 1, .max = NAME_BYTES_MAX},
		{"expires_in_ms", JSON_FIELD_U64, &expires_in_ms, .min = 1000,
	         .max = EXPIRY_MAX_MS},
	};
	int r = json_read(body, "", fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	if (key_scope_parse(scope, ret_scope) < 0)
		return err_field(err, "scope", "must be one of read, write, admin");
	if (expires_in_ms != 0)
		*ret_expires_us = clock_wall_us() + expires_in_ms * 1000;
	return 0;
}

/* The key in question, not the one that asked: that is the entry's origin. */
static void tell_key(const struct api *api, enum event_type type, const char *project_id,
                     const char *subject_id, const char *scope)
{
	struct event e;
	struct json_writer *w = event_begin(&e, api->events, type, project_id, NULL);

	json_put_str(w, "subject_key_id", subject_id);
	if (scope)
		json_put_str(w, "scope", scope);
	event_end(&e);
}

static int tell_made(struct http_req *req, const struct key *key, char secret[48], struct err *err)
{
	struct reply reply;
	struct json_writer *w;

	tell_key(http_app_arg(req), EVENT_KEY_CREATED, key_project_id(key), key_id(key),
	         key_scope_name(key_scope(key)));
	w = reply_begin(&reply);
	key_to_json(key, w, "key");
	json_put_str(w, "secret", secret);
	OPENSSL_cleanse(secret, 48);
	return reply_send(&reply, req, 201, err);
}

static int tell_revoked(struct http_req *req, const char *project_id, const char *id,
                        struct err *err)
{
	struct reply reply;

	tell_key(http_app_arg(req), EVENT_KEY_REVOKED, project_id, id, NULL);
	json_put_str(reply_begin(&reply), "id", id);
	return reply_send(&reply, req, 200, err);
}

/* In a cluster: one that the others are to hear of first. */
struct key_wait {
	struct late_reply late;
	const struct api *api;
	struct key_draft key;
	char secret[48];
	bool is_revoked;
};

static int end_wait(struct http_req *req, struct key_wait *w, struct err *err)
{
	const struct key *key;

	if (w->is_revoked)
		return tell_revoked(req, w->key.project_id, w->key.id, err);
	key = keyring_find_key(w->api->keyring, w->key.project_id, w->key.id);
	return key ? tell_made(req, key, w->secret, err)
	           : err_set(err, ERR_GONE, 0, "the key was revoked at once");
}

static void on_shared(const struct err *failure, void *arg)
{
	struct key_wait w = *(struct key_wait *)arg;
	struct http_req *req;
	struct err err = {0};

	OPENSSL_cleanse(((struct key_wait *)arg)->secret, sizeof(w.secret));
	req = late_reply_take(arg, failure);
	if (req) {
		access_enter_again(req);
		if (end_wait(req, &w, &err) < 0)
			http_reply_err(req, &err);
		access_leave(req);
	} else if (!failure) { /* nobody waits for the answer; it is so all the same */
		tell_key(w.api, w.is_revoked ? EVENT_KEY_REVOKED : EVENT_KEY_CREATED,
		         w.key.project_id, w.key.id, NULL);
	}
	OPENSSL_cleanse(&w, sizeof(w));
}

static int share_key(struct http_req *req, const struct key_draft *key, const char *secret,
                     bool is_revoked, struct err *err)
{
	const struct api *api = http_app_arg(req);
	int r = node_check(api->node, err);
	struct key_wait *w;

	if (r < 0)
		return r;
	w = late_reply_new(req, sizeof(*w));
	w->api = api;
	w->key = *key;
	w->is_revoked = is_revoked;
	if (!is_revoked) {
		memcpy(w->secret, secret, sizeof(w->secret));
		node_put_key(api->node, &w->key, on_shared, w);
		return 0;
	}
	node_revoke_key(api->node, key->project_id, key->id, on_shared, w);
	return 0;
}

int create_key(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = NULL, *project = NULL, *project_id;
	uint64_t expires_us = 0;
	enum key_scope scope;
	struct key_draft draft;
	const struct key *key;
	char secret[48];
	int r = read_key_body(http_json(req), &name, &scope, &project, &expires_us, err);

	if (r == 0)
		r = find_project(req, project, &project_id, err);
	if (r < 0)
		return r;
	if (node_is_in(api->node)) {
		r = keyring_draft(api->keyring, project_id, name, scope, expires_us, secret, &draft,
		                  err);
		return r < 0 ? r : share_key(req, &draft, secret, false, err);
	}
	r = keyring_add(api->keyring, project_id, name, scope, expires_us, secret, &key, err);
	return r < 0 ? r : tell_made(req, key, secret, err);
}

/* A key that stands for a person is this node's own. */
static bool is_shared(const struct api *api, const char *project_id, const char *id)
{
	const struct key *key = keyring_find_key(api->keyring, project_id, id);

	return node_is_in(api->node) && key && !key_person(key);
}

static int revoke_or_ask(struct http_req *req, bool is_asked, struct err *err);

static void on_asked(void *arg)
{
	struct http_req *req = late_reply_take(arg, NULL);
	struct err err = {0};

	if (!req)
		return;
	access_enter_again(req);
	if (revoke_or_ask(req, true, &err) < 0)
		http_reply_err(req, &err);
	access_leave(req);
}

/* A key that this node does not know may have been made elsewhere a moment ago, and may be good
 * there. 1: the reply comes when that is known. */
static int ask_others(struct http_req *req, const char *id, bool is_asked, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct late_reply *late = late_reply_new(req, sizeof(*late));
	enum node_ask ask = is_asked ? node_knows_unknown(api->node)
	                             : node_ask_key_id(api->node, id, on_asked, late);

	if (ask == NODE_ASK_WAIT)
		return 1;
	(void)late_reply_take(late, NULL);
	return ask == NODE_ASK_CUT
	               ? node_refuse(err,
	                             "this node does not know the key, and cannot ask the cluster")
	               : 0;
}

static int revoke_or_ask(struct http_req *req, bool is_asked, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "key_id");
	const char *project_id;
	int r = find_project(req, http_query(req, "project"), &project_id, err);

	if (r < 0)
		return r;
	if (node_is_in(api->node) && !keyring_find_key(api->keyring, project_id, id)) {
		r = ask_others(req, id, is_asked, err);
		if (r != 0)
			return MIN(r, 0);
	}
	if (is_shared(api, project_id, id)) {
		struct key_draft key = {0};

		(void)snprintf(key.id, sizeof(key.id), "%s", id);
		(void)snprintf(key.project_id, sizeof(key.project_id), "%s", project_id);
		return share_key(req, &key, NULL, true, err);
	}
	r = keyring_revoke(api->keyring, project_id, id, err);
	return r < 0 ? r : tell_revoked(req, project_id, id, err);
}

int revoke_key(struct http_req *req, struct err *err)
{
	return revoke_or_ask(req, false, err);
}
