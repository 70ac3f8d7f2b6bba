// SPDX-License-Identifier: Apache-2.0
/* Lodges: made, found, resumed, listed, forked. What takes the broker's time is answered later. */
#include "api/frame/find.h"
#include "api/frame/reply.h"

#include "compat/vercel/handlers.h"
#include "compat/vercel/wire.h"
#include "sandbox/template.h"

#include <stdio.h>
#include <string.h>

#define LIST_DEFAULT 20
#define LIST_MAX     50

/* A request that waits for a lodge to run; its client may leave meanwhile. */
struct waiting {
	struct http_req *req; /* NULL: it has */
	bool is_resumed;
};

static void on_client_done(struct http_req *req, bool whole, void *arg)
{
	(void)req;
	(void)whole;
	((struct waiting *)arg)->req = NULL;
}

static struct waiting *waiting_new(struct http_req *req)
{
	struct waiting *w = xnew0(struct waiting);

	w->req = req;
	http_on_done(req, on_client_done, w);
	return w;
}

static void put_all(struct json_writer *w, const struct lodge *b)
{
	put_lodge(w, "sandbox", b);
	put_session(w, "session", lodge_stay(b));
	put_routes(w, "routes", b);
}

static void on_running(struct lodge *b, const struct err *err, void *arg)
{
	struct waiting w = *(struct waiting *)arg;
	struct json_writer *out;
	struct reply reply;

	free(arg);
	if (!w.req)
		return;
	http_on_done(w.req, NULL, NULL);
	if (err) {
		http_reply_err(w.req, err);
		return;
	}
	out = reply_begin(&reply);
	put_all(out, b);
	json_put_bool(out, "resumed", w.is_resumed);
	reply_send_late(&reply, w.req, 200);
}

static int start_lodge(struct http_req *req, struct lodge *b, bool is_resume, struct err *err)
{
	struct waiting *w = waiting_new(req);
	bool starts;
	int r;

	/* on_running() may come before lodge_start() returns, of one that runs. */
	r = lodge_start(b, on_running, w, &starts, err);
	if (r < 0) {
		http_on_done(req, NULL, NULL);
		free(w);
		return r;
	}
	if (starts)
		w->is_resumed = is_resume;
	return 0;
}

static void make_name(char *name, size_t size)
{
	char id[ID_SIZE];

	id_make(id, "x");
	(void)snprintf(name, size, "sandbox-%.16s", id + 2);
}

/* Where a project has too many, the oldest that cannot run any more is forgotten. */
static int make_room(struct vercel *v, const char *project_id, struct err *err)
{
	struct lodge *oldest = NULL;
	size_t n = 0;

	list_for_each (&v->lodges, struct lodge, b, link) {
		if (strcmp(b->project_id, project_id) != 0)
			continue;
		n++;
		if (!oldest && b->phase == LODGE_STOPPED && !lodge_can_resume(b))
			oldest = b;
	}
	if (n >= LODGES_MAX && !oldest)
		return err_set(err, ERR_LIMIT, 0, "there are %zu sandboxes, which is the most", n);
	if (n >= LODGES_MAX)
		lodge_remove(oldest);
	return 0;
}

static int check_new(struct http_req *req, const char *space, const char *name, struct err *err)
{
	struct vercel *v = vercel_of(req);

	if (lodge_find(v, caller_project(req), space, name))
		return err_set(err, ERR_CONFLICT, 0, "a sandbox named '%s' exists already", name);
	return make_room(v, caller_project(req), err);
}

/* Makes it and starts it. Takes the config. */
static int make_lodge(struct http_req *req, const char *space, const char *name,
                      struct lodge_config *config, struct lodge_body *body, const char *snapshot,
                      struct err *err)
{
	const char *key = key_id(http_user(req));
	char made[64];
	struct lodge *b;
	int r;

	if (!name)
		make_name(made, sizeof(made));
	r = check_new(req, space, name ? name : made, err);
	if (r < 0)
		return r;
	b = lodge_new(vercel_of(req), caller_project(req), name ? name : made);
	free(b->space);
	b->space = xstrdup(space);
	(void)snprintf(b->key_id, sizeof(b->key_id), "%s", key ? key : "");
	(void)snprintf(b->snapshot, sizeof(b->snapshot), "%s", snapshot);
	b->config = *config;
	*config = (struct lodge_config){0};
	b->source = take_ptr(body->source);
	r = start_lodge(req, b, /* is_resume= */ false, err);
	if (r < 0)
		lodge_free(b);
	return r;
}

/* Of a name that their service knows and this host may have under another, or not at all. */
static int check_image(const struct http_req *req, const struct lodge_config *c, struct err *err)
{
	const struct api *api = http_app_arg(req);

	if (!c->image || strncmp(c->image, "vercel/sandbox/", strlen("vercel/sandbox/")) == 0 ||
	    find_image(api->fleet, caller_project(req), c->image))
		return 0;
	return err_set(err, ERR_NOT_FOUND, 0,
	               "no image '%.255s', and no registry is asked: `docker save IMAGE | cloche "
	               "template import --name NAME -` brings one, of NAME:TAG as NAME-TAG",
	               c->image);
}

/* 1: answered. */
static int find_source(struct http_req *req, const char *theirs, char ret[ID_SIZE])
{
	const struct api *api = http_app_arg(req);

	ret[0] = '\0';
	if (!theirs)
		return 0;
	still_id_in(theirs, ret);
	if (ret[0] && snapshot_find(api->fleet, caller_project(req), ret))
		return 0;
	vercel_refuse(req, 410, "snapshot_not_found", "The snapshot does not exist any more.");
	return 1;
}

int vercel_create_lodge(struct http_req *req, struct err *err)
{
	auto_call(lodge_config_done) struct lodge_config config;
	auto_call(lodge_body_done) struct lodge_body body = {0};
	char snapshot[ID_SIZE];
	int r;

	lodge_config_default(&config);
	r = body_read_lodge(http_json(req), BODY_CREATE, &config, &body, err);
	if (r == 0)
		r = check_image(req, &config, err);
	if (r == 0)
		r = find_source(req, body.snapshot_id, snapshot);
	if (r != 0)
		return r;
	return make_lodge(req, body.space ? body.space : space_of(req), body.name, &config, &body,
	                  snapshot, err);
}

int vercel_fork_lodge(struct http_req *req, struct err *err)
{
	auto_call(lodge_config_done) struct lodge_config config = {0};
	auto_call(lodge_body_done) struct lodge_body body = {0};
	auto_free char *space = NULL; /* the source may have to give way to its fork */
	char snapshot[ID_SIZE];
	struct lodge *b;
	int r = find_lodge(req, &b, err);

	if (r < 0)
		return r;
	lodge_config_copy(&config, &b->config);
	r = body_read_lodge(http_json(req), BODY_FORK, &config, &body, err);
	if (r < 0)
		return r;
	memcpy(snapshot, b->snapshot, sizeof(snapshot));
	if (snapshot[0] && !snapshot_find(b->vercel->api->fleet, b->project_id, snapshot)) {
		vercel_refuse(req, 410, "snapshot_not_found",
		              "The sandbox's snapshot does not exist any more.");
		return 1;
	}
	space = xstrdup(body.space ? body.space : b->space);
	return make_lodge(req, space, body.name, &config, &body, snapshot, err);
}

int vercel_get_lodge(struct http_req *req, struct err *err)
{
	const char *resume = http_query(req, "resume");
	struct reply reply;
	struct lodge *b;
	int r = find_lodge(req, &b, err);

	if (r < 0)
		return r;
	if ((resume && strcmp(resume, "true") == 0) || !lodge_stay(b))
		return start_lodge(req, b, /* is_resume= */ true, err);
	put_all(reply_begin(&reply), b);
	return reply_send(&reply, req, 200, err);
}

static void put_item(struct json_writer *w, const void *object)
{
	put_lodge(w, NULL, object);
}

static bool has_tag(const struct lodge *b, const char *tag)
{
	const char *colon = strchr(tag, ':'), *value;
	char name[300];

	if (!colon || (size_t)(colon - tag) >= sizeof(name))
		return false;
	(void)snprintf(name, sizeof(name), "%.*s", (int)(colon - tag), tag);
	value = json_string_value(json_object_get(b->config.tags, name));
	return value && strcmp(value, colon + 1) == 0;
}

static bool is_listed(const struct lodge *b, const char *project_id, const char *space,
                      const struct page_query *q)
{
	return !b->is_doomed && lodge_stay(b) && strcmp(b->project_id, project_id) == 0 &&
	       strcmp(b->space, space) == 0 &&
	       (!q->name_prefix || strncmp(b->name, q->name_prefix, strlen(q->name_prefix)) == 0) &&
	       (!q->tag || has_tag(b, q->tag));
}

int vercel_list_lodges(struct http_req *req, struct err *err)
{
	struct vercel *v = vercel_of(req);
	auto_free struct page_item *items = xnew0n(struct page_item, v->n_lodges + 1);
	struct page_query q;
	struct reply reply;
	size_t n = 0;
	int r = page_read(req, LIST_DEFAULT, LIST_MAX, &q, err);

	if (r < 0)
		return r;
	list_for_each (&v->lodges, const struct lodge, b, link) {
		if (!is_listed(b, caller_project(req), space_of(req), &q))
			continue;
		items[n] = (struct page_item){.id = b->id, .object = b, .at_ms = b->created_ms};
		if (q.sort_by && strcmp(q.sort_by, "name") == 0)
			items[n].text = b->name;
		else if (q.sort_by && strcmp(q.sort_by, "statusUpdatedAt") == 0)
			items[n].at_ms = b->status_ms;
		n++;
	}
	page_put(reply_begin(&reply), "sandboxes", &q, items, n, put_item);
	return reply_send(&reply, req, 200, err);
}
