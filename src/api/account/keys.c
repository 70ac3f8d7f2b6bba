// SPDX-License-Identifier: Apache-2.0
/*
 * Keys. An admin rules over those of its own project; an admin of the project "default" over all.
 */
#include "api/api.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#include "base/clock.h"

#include <openssl/crypto.h>
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
static void tell_key(const struct http_req *req, enum event_type type, const char *project_id,
                     const char *subject_id, const char *scope)
{
	const struct api *api = http_app_arg(req);
	struct event e;
	struct json_writer *w = event_begin(&e, api->events, type, project_id, NULL);

	json_put_str(w, "subject_key_id", subject_id);
	if (scope)
		json_put_str(w, "scope", scope);
	event_end(&e);
}

int create_key(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = NULL, *project = NULL, *project_id;
	uint64_t expires_us = 0;
	enum key_scope scope;
	const struct key *key;
	char secret[48];
	struct reply reply;
	struct json_writer *w;
	int r = read_key_body(http_json(req), &name, &scope, &project, &expires_us, err);

	if (r == 0)
		r = find_project(req, project, &project_id, err);
	if (r == 0)
		r = keyring_add(api->keyring, project_id, name, scope, expires_us, secret, &key,
		                err);
	if (r < 0)
		return r;
	tell_key(req, EVENT_KEY_CREATED, project_id, key_id(key), key_scope_name(scope));
	w = reply_begin(&reply);
	key_to_json(key, w, "key");
	json_put_str(w, "secret", secret);
	OPENSSL_cleanse(secret, sizeof(secret));
	return reply_send(&reply, req, 201, err);
}

int revoke_key(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "key_id");
	const char *project_id;
	struct reply reply;
	int r = find_project(req, http_query(req, "project"), &project_id, err);

	if (r == 0)
		r = keyring_revoke(api->keyring, project_id, id, err);
	if (r < 0)
		return r;
	tell_key(req, EVENT_KEY_REVOKED, project_id, id, NULL);
	json_put_str(reply_begin(&reply), "id", id);
	return reply_send(&reply, req, 200, err);
}
