// SPDX-License-Identifier: Apache-2.0
/*
 * E2B's volumes are the daemon's volumes. The files of a volume are opened by a token, which keys
 * with the scope `write` get here; the tokens are in the volume's notes.
 */
#include "sandbox/storage/volume.h"

#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/nodes/node_rows.h"
#include "compat/e2b/control/volume.h"
#include "compat/e2b/frame/body.h"
#include "compat/e2b/frame/notes.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static void put_volume(const struct volume_facts *f, const char *token, struct json_writer *w)
{
	json_open_object(w, NULL);
	json_put_str(w, "volumeID", f->id);
	json_put_str(w, "name", f->name);
	if (token)
		json_put_str(w, "token", token);
	json_close_object(w);
}

static struct key_tokens tokens_of(const struct volume_facts *f)
{
	const json_t *ours = json_object_get(f->notes, "e2b");

	return (struct key_tokens){.project_id = f->project_id,
	                           .key_id = f->key_id,
	                           .first = json_string_value(json_object_get(ours, "token")),
	                           .others = json_object_get(ours, "tokens")};
}

static json_t *new_notes(const json_t *old)
{
	json_t *notes = old ? json_deep_copy(old) : json_object();
	char token[KEY_TOKEN_SIZE];

	key_token_make(token);
	(void)json_object_set_new(notes, "e2b", json_pack("{s:s}", "token", token));
	return notes;
}

/* Each key that asks gets its own token. */
static int ensure_token(const struct http_req *req, struct volume *v, struct err *err)
{
	const struct api *api = http_app_arg(req);
	auto_json json_t *notes = NULL;
	struct volume_facts facts;
	struct key_tokens tokens;

	volume_facts(v, &facts);
	tokens = tokens_of(&facts);
	if (key_tokens_of(&tokens, http_user(req)))
		return 0;
	notes = tokens.first ? json_deep_copy(facts.notes) : new_notes(facts.notes);
	(void)json_object_set_new(json_object_get(notes, "e2b"), "tokens",
	                          key_tokens_add(&tokens, api->keyring, http_user(req)));
	return volume_set_notes(v, notes, err);
}

static void on_made(struct volume *v, const struct err *err, void *arg)
{
	struct http_req *req = late_reply_take(arg, err);
	struct volume_facts facts;
	struct reply reply;

	if (!req)
		return;
	volume_facts(v, &facts);
	put_volume(&facts, tokens_of(&facts).first, reply_begin_bare(&reply));
	reply_send_late(&reply, req, 201);
}

int e2b_create_volume(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	auto_json json_t *notes = new_notes(NULL);
	struct volume_wish wish = {.key_id = key_id(http_user(req)), .notes = notes};
	struct late_reply *late;
	int r = body_text(http_json(req), "name", &wish.name, err);

	if (r == 0 && !wish.name)
		r = err_field(err, "name", "is required");
	if (r == 0)
		r = lead_elsewhere(req, err);
	if (r != 0)
		return r;
	late = late_reply_new(req, sizeof(*late));
	r = volume_create(api->fleet, caller_project(req), &wish, on_made, late, err);
	return r < 0 ? late_reply_drop(late, r) : r;
}

static int find(const struct http_req *req, struct volume **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "id");

	*ret = id_is_valid(id, "vo") ? volume_find(api->fleet, caller_project(req), id) : NULL;
	return *ret ? 0 : err_set(err, ERR_NOT_FOUND, 0, "volume '%.64s' not found", id);
}

static void list_one(const struct volume *v, void *arg)
{
	struct volume_facts facts;

	volume_facts(v, &facts);
	put_volume(&facts, NULL, arg);
}

static void list_own(struct http_req *req, struct json_writer *w)
{
	const struct api *api = http_app_arg(req);

	volume_list(api->fleet, caller_project(req), list_one, w);
}

int e2b_list_volumes(struct http_req *req, struct err *err)
{
	static const struct node_rows_kind kind = {.put_own = list_own};
	struct json_writer *w;
	struct reply reply;
	int r = node_rows_begin(req, &kind, err);

	if (r != 0)
		return r;
	w = reply_begin_bare(&reply);
	json_open_array(w, NULL);
	list_own(req, w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

int e2b_get_volume(struct http_req *req, struct err *err)
{
	struct volume_facts facts;
	struct key_tokens tokens;
	struct volume *v;
	struct reply reply;
	int r = find(req, &v, err);

	if (r == 0)
		r = ensure_token(req, v, err);
	if (r < 0)
		return r;
	volume_facts(v, &facts);
	tokens = tokens_of(&facts);
	put_volume(&facts, key_tokens_of(&tokens, http_user(req)), reply_begin_bare(&reply));
	return reply_send(&reply, req, 200, err);
}

int e2b_delete_volume(struct http_req *req, struct err *err)
{
	struct volume *v;
	int r = find(req, &v, err);

	if (r == 0)
		r = volume_remove(v, err);
	if (r == 0)
		http_reply(req, 204, NULL, NULL, 0);
	return r;
}

struct shown {
	const char *token;
	struct keyring *keyring;
	const struct key **ret_key;
};

static bool is_shown(const struct volume *v, const void *arg)
{
	const struct shown *shown = arg;
	struct volume_facts facts;
	struct key_tokens tokens;

	volume_facts(v, &facts);
	tokens = tokens_of(&facts);
	*shown->ret_key = key_tokens_find(&tokens, shown->keyring, key_token_is, shown->token);
	return *shown->ret_key;
}

int e2b_find_content(struct http_req *req, char ret_id[ID_SIZE], struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "id"), *value = http_header(req, "Authorization");
	bool has_token = value && strncasecmp(value, "Bearer ", 7) == 0;
	const struct key *key = NULL;
	const struct shown shown = {has_token ? value + 7 : NULL, api->keyring, &key};

	if (!volume_find_shown(api->fleet, id, is_shown, &shown))
		return err_set(err, ERR_UNAUTHENTICATED, 0, "a token of this volume is needed");
	api_let_in(req, key);
	(void)snprintf(ret_id, ID_SIZE, "%s", id);
	return 0;
}
