// SPDX-License-Identifier: Apache-2.0
/* Creates, finds, resumes, lists and forks sandboxes. Requests that need the broker are answered
 * later.
 */
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/sandboxes/create_wait.h"

#include "compat/vercel/handlers.h"
#include "compat/vercel/wire.h"
#include "sandbox/storage/template.h"

#include <stdio.h>
#include <string.h>

#define LIST_DEFAULT 20
#define LIST_MAX     50

/* A request that waits for a sandbox to run, and one that makes it in a cluster for its name, too.
 * Both are asked for at once: the name is another one's only if two are made at the same moment. */
struct waiting {
	struct late_reply late;
	struct vercel *vercel;
	char box_id[ID_SIZE];
	unsigned n_open; /* of the two */
	bool is_resumed, has_failed;
};

static void put_all(struct json_writer *w, const struct vercel_sandbox *box)
{
	put_vercel_sandbox(w, "sandbox", box);
	put_session(w, "session", vercel_sandbox_session(box));
	put_routes(w, "routes", box);
}

/* One of the two has come. A failure is told at once, and the other one is waited for. */
static void note(struct waiting *w, const struct err *err)
{
	const struct waiting was = *w;
	const struct vercel_sandbox *box;
	struct json_writer *out;
	struct http_req *req;
	struct reply reply;

	if (err && !was.has_failed && was.late.req)
		http_reply_err(was.late.req, err);
	w->has_failed |= err != NULL;
	if (--w->n_open > 0)
		return;
	req = late_reply_take(w, NULL);
	box = vercel_sandbox_by_id(was.vercel, was.box_id);
	if (!req || err || was.has_failed || !box)
		return;
	out = reply_begin(&reply);
	put_all(out, box);
	json_put_bool(out, "resumed", was.is_resumed);
	reply_send_late(&reply, req, 200);
}

static void on_running(struct vercel_sandbox *box, const struct err *err, void *arg)
{
	(void)box;
	note(arg, err);
}

/* err: another sandbox has the name, or nobody can say. Then this one never was anything. */
static void on_named(const struct err *err, void *arg)
{
	const struct vercel_sandbox_stop how = {.is_last = true};
	struct waiting *w = arg;
	struct vercel_sandbox *box = vercel_sandbox_by_id(w->vercel, w->box_id);
	struct err why;

	if (err)
		why = *err;
	if (err && err->code == ERR_CONFLICT && box)
		(void)err_set(&why, ERR_CONFLICT, 0,
		              "a sandbox named '%s' exists already, on another node", box->name);
	if (!err && !box) /* it was deleted meanwhile */
		node_give(w->vercel->api->node, w->box_id, /* with_key= */ false);
	if (!err && box)
		box->is_unnamed = false;
	note(w, err ? &why : NULL);
	if (err && box)
		vercel_sandbox_stop(box, &how, NULL, NULL);
}

static int start_vercel_sandbox(struct http_req *req, struct vercel_sandbox *box, uint64_t wait_ms,
                                bool is_resume, struct err *err)
{
	const bool is_named = !is_resume && node_is_in(box->vercel->api->node);
	struct waiting *w = late_reply_new(req, sizeof(*w));
	bool starts;
	int r;

	w->vercel = box->vercel;
	memcpy(w->box_id, box->id, sizeof(w->box_id));
	w->n_open = is_named ? 2 : 1;
	box->wait_ms = wait_ms;
	/* on_running() may be called before vercel_sandbox_start() returns, if the sandbox runs
	 * already. */
	r = vercel_sandbox_start(box, on_running, w, &starts, err);
	if (r < 0)
		return late_reply_drop(w, r);
	if (starts)
		w->is_resumed = is_resume;
	if (is_named) {
		box->is_unnamed = true;
		vercel_name_take(box, on_named, w);
	}
	return 0;
}

static void make_name(char *name, size_t size)
{
	char id[ID_SIZE];

	id_make(id, "x");
	(void)snprintf(name, size, "sandbox-%.16s", id + 2);
}

/* If a project has too many, the oldest one that cannot run any more is forgotten. */
static int make_room(struct vercel *v, const char *project_id, struct err *err)
{
	struct vercel_sandbox *oldest = NULL;
	size_t n = 0;

	list_for_each (&v->sandboxes, struct vercel_sandbox, box, link) {
		if (strcmp(box->project_id, project_id) != 0)
			continue;
		n++;
		if (!oldest && box->phase == VERCEL_SANDBOX_STOPPED &&
		    !vercel_sandbox_can_resume(box))
			oldest = box;
	}
	if (n >= VERCEL_SANDBOXES_MAX && !oldest)
		return err_set(err, ERR_LIMIT, 0, "there are %zu sandboxes, which is the limit", n);
	if (n >= VERCEL_SANDBOXES_MAX)
		vercel_sandbox_remove(oldest);
	return 0;
}

static bool is_taken(const struct vercel *v, const char *project_id, const char *space,
                     const char *name)
{
	list_for_each (&v->sandboxes, const struct vercel_sandbox, box, link)
		if (!box->is_doomed && strcmp(box->name, name) == 0 &&
		    strcmp(box->space, space) == 0 && strcmp(box->project_id, project_id) == 0)
			return true;
	return false;
}

static int check_new(struct http_req *req, const char *space, const char *name, struct err *err)
{
	struct vercel *v = vercel_of(req);

	if (is_taken(v, caller_project(req), space, name))
		return err_set(err, ERR_CONFLICT, 0, "a sandbox named '%s' exists already", name);
	return make_room(v, caller_project(req), err);
}

/* Makes it and starts it. Takes the config. */
static int make_vercel_sandbox(struct http_req *req, const char *space, const char *name,
                               struct vercel_sandbox_config *config,
                               struct vercel_sandbox_body *body, const char *snapshot,
                               uint64_t wait_ms, struct err *err)
{
	const char *key = key_id(http_user(req));
	char made[64];
	struct vercel_sandbox *box;
	int r;

	if (!name)
		make_name(made, sizeof(made));
	r = check_new(req, space, name ? name : made, err);
	if (r < 0)
		return r;
	box = vercel_sandbox_new(vercel_of(req), caller_project(req), name ? name : made);
	free(box->space);
	box->space = xstrdup(space);
	(void)snprintf(box->key_id, sizeof(box->key_id), "%s", key ? key : "");
	(void)snprintf(box->snapshot, sizeof(box->snapshot), "%s", snapshot);
	box->config = *config;
	*config = (struct vercel_sandbox_config){0};
	box->source = take_ptr(body->source);
	r = start_vercel_sandbox(req, box, wait_ms, /* is_resume= */ false, err);
	if (r < 0)
		vercel_sandbox_free(box);
	return r;
}

/* Finds an image, which this host may have under another name or has to pull. 1: the latter. */
static int check_image(struct http_req *req, const struct vercel_sandbox_config *c, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct template *t;

	if (!c->image || is_theirs(c->image))
		return find_base(api, caller_project(req), c->image, c->runtime, &t, err);
	return find_or_pull(req, c->image, err);
}

/* 1: answered. */
static int find_source(struct http_req *req, const char *theirs, char ret[ID_SIZE])
{
	const struct api *api = http_app_arg(req);

	ret[0] = '\0';
	if (!theirs)
		return 0;
	vercel_snapshot_id_in(theirs, ret);
	if (ret[0] && snapshot_find(api->fleet, caller_project(req), ret))
		return 0;
	vercel_refuse(req, 410, "snapshot_not_found", "The snapshot does not exist any more.");
	return 1;
}

static int create_now(struct http_req *req, uint64_t *ret_wait_ms, struct err *err)
{
	auto_call(vercel_sandbox_config_done) struct vercel_sandbox_config config;
	auto_call(vercel_sandbox_body_done) struct vercel_sandbox_body body = {0};
	char snapshot[ID_SIZE];
	int r;

	vercel_sandbox_config_default(&config);
	r = create_wait_foreign(req, ret_wait_ms, err);
	if (r == 0)
		r = body_read_vercel_sandbox(http_json(req), BODY_CREATE, &config, &body, err);
	if (r == 0 && !body.snapshot_id)
		r = check_image(req, &config, err);
	if (r == 0)
		r = find_source(req, body.snapshot_id, snapshot);
	if (r != 0)
		return r;
	return make_vercel_sandbox(req, body.space ? body.space : space_of(req), body.name, &config,
	                           &body, snapshot, *ret_wait_ms, err);
}

int vercel_create_sandbox(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	int r = api->place ? api->place(req, /* refused= */ NULL, err) : 0;

	return r != 0 ? r : create_or_wait(req, create_now, err);
}

static int fork_now(struct http_req *req, uint64_t *ret_wait_ms, struct err *err)
{
	auto_call(vercel_sandbox_config_done) struct vercel_sandbox_config config = {0};
	auto_call(vercel_sandbox_body_done) struct vercel_sandbox_body body = {0};
	auto_free char *space = NULL; /* the source may have to give way to its fork */
	char snapshot[ID_SIZE];
	struct vercel_sandbox *box;
	int r = create_wait_foreign(req, ret_wait_ms, err);

	if (r == 0)
		r = lead_elsewhere(req, err);
	if (r == 0)
		r = find_vercel_sandbox(req, &box, err);
	if (r != 0)
		return r;
	vercel_sandbox_config_copy(&config, &box->config);
	free(take_ptr(config.locked)); /* it is sealed for that one */
	r = body_read_vercel_sandbox(http_json(req), BODY_FORK, &config, &body, err);
	if (r < 0)
		return r;
	memcpy(snapshot, box->snapshot, sizeof(snapshot));
	if (snapshot[0] && !snapshot_find(box->vercel->api->fleet, box->project_id, snapshot)) {
		vercel_refuse(req, 410, "snapshot_not_found",
		              "The sandbox's snapshot does not exist any more.");
		return 1;
	}
	space = xstrdup(body.space ? body.space : box->space);
	return make_vercel_sandbox(req, space, body.name, &config, &body, snapshot, *ret_wait_ms,
	                           err);
}

int vercel_fork_sandbox(struct http_req *req, struct err *err)
{
	return create_or_wait_here(req, fork_now, err);
}

/* A resume starts a session, which is a create. */
static int get_now(struct http_req *req, uint64_t *ret_wait_ms, struct err *err)
{
	const char *resume = http_query(req, "resume");
	struct reply reply;
	struct vercel_sandbox *box;
	int r = create_wait_foreign(req, ret_wait_ms, err);

	if (r == 0)
		r = find_vercel_sandbox(req, &box, err);
	if (r < 0)
		return r;
	if ((resume && strcmp(resume, "true") == 0) || !vercel_sandbox_session(box))
		return start_vercel_sandbox(req, box, *ret_wait_ms, /* is_resume= */ true, err);
	put_all(reply_begin(&reply), box);
	return reply_send(&reply, req, 200, err);
}

int vercel_get_sandbox(struct http_req *req, struct err *err)
{
	return create_or_wait_here(req, get_now, err);
}

static void put_item(struct json_writer *w, const void *object)
{
	put_vercel_sandbox(w, NULL, object);
}

static bool has_tag(const struct vercel_sandbox *box, const char *tag)
{
	const char *colon = strchr(tag, ':'), *value;
	char name[300];

	if (!colon || (size_t)(colon - tag) >= sizeof(name))
		return false;
	(void)snprintf(name, sizeof(name), "%.*s", (int)(colon - tag), tag);
	value = json_string_value(json_object_get(box->config.tags, name));
	return value && strcmp(value, colon + 1) == 0;
}

static bool is_listed(const struct vercel_sandbox *box, const char *project_id, const char *space,
                      const struct page_query *q)
{
	return !box->is_doomed && !box->is_unnamed && vercel_sandbox_session(box) &&
	       strcmp(box->project_id, project_id) == 0 && strcmp(box->space, space) == 0 &&
	       (!q->name_prefix ||
	        strncmp(box->name, q->name_prefix, strlen(q->name_prefix)) == 0) &&
	       (!q->tag || has_tag(box, q->tag));
}

static void collect(struct http_req *req, const struct page_query *q, struct page_items *ret)
{
	const struct vercel *v = vercel_of(req);

	list_for_each (&v->sandboxes, const struct vercel_sandbox, box, link)
		if (is_listed(box, caller_project(req), space_of(req), q))
			page_add(ret, box->name, box,
			         page_sorts_by(q, "statusUpdatedAt") ? box->status_ms
			                                             : box->created_ms,
			         page_sorts_by(q, "name") ? box->name : NULL);
}

int vercel_list_sandboxes(struct http_req *req, struct err *err)
{
	static const struct page_kind kind = {.array = "sandboxes",
	                                      .id_field = "name",
	                                      .sorts = {"createdAt", "statusUpdatedAt", "name"},
	                                      .limit_default = LIST_DEFAULT,
	                                      .limit_max = LIST_MAX,
	                                      .collect = collect,
	                                      .put = put_item};

	return page_list(req, &kind, err);
}
