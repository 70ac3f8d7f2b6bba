// SPDX-License-Identifier: Apache-2.0
/*
 * E2B's secrets are ours by name (secret/secret.h). `${e2b.secrets.NAME}` in a header field of a
 * network rule is `secret://NAME` of ours (network.c). They have no metadata here, so a call that
 * brings some is refused: it would be lost.
 */
#include "api/account/secrets.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/nodes/node_fresh.h"
#include "compat/e2b/frame/body.h"
#include "compat/e2b/frame/objects.h"

#include <stdio.h>
#include <string.h>

#define PAGE_MAX 100

static void put_secret_info(struct json_writer *w, const struct secret *s)
{
	struct secret_facts f;

	secret_look(s, &f);
	json_open_object(w, NULL);
	json_put_str(w, "secretID", f.id);
	json_put_str(w, "name", f.name);
	json_put_u64(w, "currentVersion", f.version);
	json_open_object(w, "metadata");
	json_close_object(w);
	e2b_put_time(w, "createdAt", f.created_us);
	e2b_put_time(w, "updatedAt", f.changed_us);
	json_close_object(w);
}

static int reply_one(struct http_req *req, const struct secret *s, int status, struct err *err)
{
	struct reply reply;

	put_secret_info(reply_begin_bare(&reply), s);
	return reply_send(&reply, req, status, err);
}

struct search {
	const char *id;
	const struct secret *found;
};

static void look(const struct secret *s, void *arg)
{
	struct search *search = arg;
	struct secret_facts f;

	secret_look(s, &f);
	if (strcmp(f.id, search->id) == 0)
		search->found = s;
}

/* By its name or its id. 1: the call waits for what other nodes have. */
static int find(struct http_req *req, const struct secret **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct search search = {.id = http_param(req, "secret_id")};
	int r;

	search.found = secrets_find(api->secrets, caller_project(req), search.id);
	if (!search.found)
		secrets_each(api->secrets, caller_project(req), look, &search);
	*ret = search.found;
	if (search.found)
		return 0;
	r = node_fresh_look(req, err);
	return r != 0 ? r : err_set(err, ERR_NOT_FOUND, 0, "secret '%.64s' not found", search.id);
}

static int reply_set(struct http_req *req, const char *name, bool is_new, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct secret *s = secrets_find(api->secrets, caller_project(req), name);

	return s ? reply_one(req, s, is_new ? 201 : 200, err)
	         : err_set(err, ERR_GONE, 0, "the secret was removed at once");
}

static int set(struct http_req *req, const char *name, struct err *err)
{
	const json_t *value = json_object_get(http_json(req), "value"), *metadata = NULL;
	int r = body_strings(http_json(req), "metadata", &metadata, err);

	if (r < 0)
		return r;
	if (json_object_size(metadata) > 0)
		return err_field(err, "metadata", "is not kept here: leave it out");
	if (!json_is_string(value))
		return err_field(err, "value", "must be a string");
	return secret_put(req,
	                  &(struct secret_wish){.name = name,
	                                        .value = json_string_value(value),
	                                        .len = json_string_length(value)},
	                  reply_set, err);
}

int e2b_create_secret(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = NULL;
	int r = body_text(http_json(req), "name", &name, err);

	if (r == 0 && !name)
		r = err_field(err, "name", "is required");
	if (r == 0) {
		r = node_fresh_look(req, err);
		if (r > 0)
			return 0;
	}
	if (r == 0 && secrets_find(api->secrets, caller_project(req), name))
		r = err_set(err, ERR_CONFLICT, 0, "there is a secret '%.64s'", name);
	return r < 0 ? r : set(req, name, err);
}

int e2b_update_secret(struct http_req *req, struct err *err)
{
	const struct secret *s;
	struct secret_facts f;
	int r = find(req, &s, err);

	if (r != 0)
		return MIN(r, 0);
	secret_look(s, &f);
	return set(req, f.name, err);
}

int e2b_get_secret(struct http_req *req, struct err *err)
{
	const struct secret *s;
	int r = find(req, &s, err);

	return r != 0 ? MIN(r, 0) : reply_one(req, s, 200, err);
}

static int reply_removed(struct http_req *req, const char *name, bool is_new, struct err *err)
{
	(void)name;
	(void)is_new;
	(void)err;
	http_reply(req, 204, NULL, NULL, 0);
	return 0;
}

int e2b_delete_secret(struct http_req *req, struct err *err)
{
	const struct secret *s;
	struct secret_facts f;
	int r = find(req, &s, err);

	if (r != 0)
		return MIN(r, 0);
	secret_look(s, &f);
	return secret_drop_unused(req, f.name, reply_removed, err);
}

struct page {
	struct json_writer *w;
	const char *after; /* the last name of the page before, or NULL */
	uint64_t limit, n;
	const char *last;
};

static void put_one(const struct secret *s, void *arg)
{
	struct page *p = arg;
	struct secret_facts f;

	secret_look(s, &f);
	if ((p->after && strcmp(f.name, p->after) <= 0) || p->n++ >= p->limit)
		return;
	put_secret_info(p->w, s);
	p->last = f.name;
}

int e2b_list_secrets(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct page p = {.after = http_query(req, "nextToken"), .limit = PAGE_MAX};
	struct reply reply;
	int r = http_query_u64(req, "limit", 1, PAGE_MAX, &p.limit, err);

	if (r < 0)
		return r;
	if (node_fresh_look(req, NULL) > 0)
		return 0;
	p.w = reply_begin_bare(&reply);
	json_open_array(p.w, NULL);
	secrets_each(api->secrets, caller_project(req), put_one, &p);
	json_close_array(p.w);
	if (p.n > p.limit)
		http_reply_header(req, "X-Next-Token", p.last);
	return reply_send(&reply, req, 200, err);
}
