// SPDX-License-Identifier: Apache-2.0
/*
 * E2B's volumes are the daemon's. What lets into one's files is its own token, which is in the
 * volume's notes; one that was made by another wire has none, and is given one when a key with the
 * right to write asks for it here.
 */
#include "sandbox/storage/volume.h"

#include "api/frame/find.h"
#include "api/frame/reply.h"
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

static const char *token_of(const struct volume_facts *f)
{
	return json_string_value(json_object_get(json_object_get(f->notes, "e2b"), "token"));
}

static json_t *new_notes(const json_t *old)
{
	json_t *notes = old ? json_deep_copy(old) : json_object();
	char token[NOTES_TOKEN_SIZE];

	notes_make_token(token);
	(void)json_object_set_new(notes, "e2b", json_pack("{s:s}", "token", token));
	return notes;
}

struct making {
	struct http_req *req; /* NULL: the client is gone */
};

static void on_client_done(struct http_req *req, bool whole, void *arg)
{
	(void)req;
	(void)whole;
	((struct making *)arg)->req = NULL;
}

static void on_made(struct volume *v, const struct err *err, void *arg)
{
	struct http_req *req = ((struct making *)arg)->req;
	struct volume_facts facts;
	struct reply reply;

	free(arg);
	if (!req)
		return;
	http_on_done(req, NULL, NULL);
	if (err) {
		http_reply_err(req, err);
		return;
	}
	volume_facts(v, &facts);
	put_volume(&facts, token_of(&facts), reply_begin_bare(&reply));
	reply_send_late(&reply, req, 201);
}

int e2b_create_volume(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	auto_json json_t *notes = new_notes(NULL);
	struct volume_wish wish = {.key_id = key_id(http_user(req)), .notes = notes};
	struct making *m;
	int r = body_text(http_json(req), "name", &wish.name, err);

	if (r == 0 && !wish.name)
		r = err_field(err, "name", "is required");
	if (r < 0)
		return r;
	m = xnew0(struct making);
	m->req = req;
	http_on_done(req, on_client_done, m);
	r = volume_create(api->fleet, caller_project(req), &wish, on_made, m, err);
	if (r < 0) {
		http_on_done(req, NULL, NULL);
		free(m);
	}
	return r;
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

int e2b_list_volumes(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reply reply;
	struct json_writer *w = reply_begin_bare(&reply);

	json_open_array(w, NULL);
	volume_list(api->fleet, caller_project(req), list_one, w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

int e2b_get_volume(struct http_req *req, struct err *err)
{
	struct volume_facts facts;
	struct volume *v;
	struct reply reply;
	int r = find(req, &v, err);

	if (r < 0)
		return r;
	volume_facts(v, &facts);
	if (!token_of(&facts)) {
		auto_json json_t *notes = new_notes(facts.notes);

		r = volume_set_notes(v, notes, err);
		if (r < 0)
			return r;
		volume_facts(v, &facts);
	}
	put_volume(&facts, token_of(&facts), reply_begin_bare(&reply));
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

static bool is_shown(const struct volume *v, const void *arg)
{
	struct volume_facts facts;

	volume_facts(v, &facts);
	return token_of(&facts) && notes_token_is(token_of(&facts), arg);
}

int e2b_find_content(const struct http_req *req, char ret_id[ID_SIZE], struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "id"), *value = http_header(req, "Authorization");

	if (!value || strncasecmp(value, "Bearer ", 7) != 0 ||
	    !volume_find_shown(api->fleet, id, is_shown, value + 7))
		return err_set(err, ERR_UNAUTHENTICATED, 0, "a token of this volume is needed");
	(void)snprintf(ret_id, ID_SIZE, "%s", id);
	return 0;
}
