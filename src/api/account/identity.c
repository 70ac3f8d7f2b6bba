// SPDX-License-Identifier: Apache-2.0
/*
 * Identities of sandboxes: the documents that clouds read without a key, the keys as the operator
 * sees them, and a token for who may write. No route tells a private key.
 */
#include "identity/identity.h"

#include "api/api.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "net/policy/identity_reference.h"
#include "sandbox/network/identity_fill.h"

/* Verifiers may keep them that long; the next key is told days before it signs. */
#define PUBLIC_FOR "public, max-age=300"

static int find_identity(const struct http_req *req, struct identity **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);

	*ret = fleet_config(api->fleet)->identity;
	if (*ret)
		return 0;
	(void)err_set(err, ERR_NOT_FOUND, 0, "this daemon issues no identity tokens");
	return err_hint(err, "set `identity.issuer` to the https URL under which clouds find this "
	                     "daemon, and restart it");
}

static int reply_public(struct http_req *req,
                        void (*put)(const struct identity *id, struct json_writer *w),
                        struct err *err)
{
	struct identity *id;
	struct reply reply;
	int r = find_identity(req, &id, err);

	if (r < 0)
		return r;
	put(id, reply_begin(&reply));
	http_reply_header(req, "Cache-Control", PUBLIC_FOR);
	return reply_send(&reply, req, 200, err);
}

int get_discovery(struct http_req *req, struct err *err)
{
	return reply_public(req, identity_put_discovery, err);
}

int get_identity_keys(struct http_req *req, struct err *err)
{
	return reply_public(req, identity_put_keys, err);
}

int get_identity(struct http_req *req, struct err *err)
{
	struct identity *id;
	struct reply reply;
	int r = find_identity(req, &id, err);

	if (r < 0)
		return r;
	identity_put_status(id, reply_begin(&reply));
	return reply_send(&reply, req, 200, err);
}

struct rotation {
	struct late_reply late;
	const struct identity *id;
};

static void on_rotated(const struct err *err, void *arg)
{
	const struct rotation *rotation = arg;
	const struct identity *id = rotation->id;
	struct http_req *req = late_reply_take(arg, err);
	struct reply reply;

	if (!req)
		return;
	identity_put_status(id, reply_begin(&reply));
	reply_send_late(&reply, req, 200);
}

int rotate_identity(struct http_req *req, struct err *err)
{
	bool is_revoking = false;
	const struct json_field fields[] = {{"revoke", JSON_FIELD_BOOL, &is_revoking}};
	struct rotation *rotation;
	struct identity *id;
	int r = check_is_default(req, err);

	if (r == 0)
		r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);
	if (r == 0)
		r = find_identity(req, &id, err);
	if (r < 0)
		return r;
	rotation = late_reply_new(req, sizeof(*rotation));
	rotation->id = id;
	r = identity_rotate(id, is_revoking, on_rotated, rotation, err);
	return r < 0 ? late_reply_drop(rotation, r) : r;
}

int create_identity_token(struct http_req *req, struct err *err)
{
	const char *audience = NULL;
	const struct json_field fields[] = {
		{"audience", JSON_FIELD_STRING, &audience, .required = true, .min = 1,
	         .max = AUDIENCE_MAX},
	};
	auto_call(identity_token_done) struct identity_token token = {0};
	struct json_writer *w;
	struct sandbox *s;
	struct reply reply;
	int r = find_sandbox(req, &s, err);

	if (r == 0)
		r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);
	if (r == 0)
		r = identity_ask(s, audience, &token, err);
	if (r < 0)
		return r;
	w = reply_begin(&reply);
	json_put_str(w, "token", buf_str(&token.text));
	json_put_str(w, "token_id", token.id);
	json_put_str(w, "audience", audience);
	json_put_u64(w, "expires_us", token.expires_us);
	http_reply_header(req, "Cache-Control", "no-store");
	return reply_send(&reply, req, 200, err);
}
