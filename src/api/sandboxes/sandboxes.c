// SPDX-License-Identifier: Apache-2.0
/* Sandboxes. What takes the broker's time is answered later (answer.h). */
#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/idempotency.h"
#include "api/frame/reply.h"
#include "api/frame/wake.h"
#include "api/handlers.h"
#include "api/nodes/list_page.h"
#include "api/sandboxes/create_wait.h"
#include "api/sandboxes/sandbox_reply.h"
#include "api/templates/image.h"
#include "api/templates/packages.h"

#include <stdio.h>
#include <string.h>

/* In a cluster, of a create whose idempotency key has made a sandbox on another node. */
static void sandbox_reply_made(struct sandbox *s, const struct err *err, void *arg)
{
	struct http_req *req = ((struct sandbox_reply *)arg)->late.req;
	const struct api *api = req ? http_app_arg(req) : NULL;
	struct err failure = {0};
	int r;

	if (!err || err->code != ERR_CONFLICT || !req || !api->place) {
		sandbox_reply_send(s, err, arg);
		return;
	}
	failure = *err;
	(void)late_reply_take(arg, NULL);
	r = api->place(req, &failure, &failure);
	if (r <= 0)
		http_reply_err(req, &failure);
}

/* Of a create that takes what is there. What is being made here fails when another node has made
 * its own in the meantime. */
static void sandbox_reply_got(struct sandbox *s, const struct err *err, void *arg)
{
	struct http_req *req = ((struct sandbox_reply *)arg)->late.req;
	const struct api *api = req ? http_app_arg(req) : NULL;
	const char *name = req ? json_string_value(json_object_get(http_json(req), "name")) : NULL;
	struct err failure = {0};
	int r;

	if (!err || err->code != ERR_CONFLICT || !name || !api->pass_by_name) {
		sandbox_reply_send(s, err, arg);
		return;
	}
	failure = *err;
	(void)late_reply_take(arg, NULL);
	r = api->pass_by_name(req, name, &failure);
	if (r <= 0)
		http_reply_err(req, &failure);
}

/* An err of the fleet comes later, as the answer. */
static int make_sandbox(struct http_req *req, struct sandbox_spec *spec,
                        const struct port_numbers *ports, bool is_get, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct sandbox_reply *a;
	int r = find_pulled(req, spec, err);

	if (r == 0)
		r = find_packages(req, spec, NULL, err);
	if (r != 0)
		return r;
	a = sandbox_reply_new(req, 201);
	a->tells_how = a->is_created = true;
	a->is_undone = !is_get && !spec->idempotency_key;
	a->ports = *ports;
	r = sandbox_create(api->fleet, caller_project(req), spec,
	                   is_get ? sandbox_reply_got : sandbox_reply_made, a, err);
	return r < 0 ? late_reply_drop(a, r) : r;
}

static int take_sandbox(struct http_req *req, struct sandbox *s, bool with_memory,
                        sandbox_done_fn done, struct err *err)
{
	struct sandbox_reply *a = sandbox_reply_new(req, 200);
	int r;

	a->tells_how = true;
	a->is_resumed = sandbox_is_resting(s);
	r = with_memory ? sandbox_resume(s, done, a, err) : sandbox_resume_cold(s, done, a, err);
	return r < 0 ? late_reply_drop(a, r) : r;
}

static bool is_ending(const struct sandbox *s)
{
	return sandbox_state(s) == SANDBOX_STOPPING && !sandbox_is_resting(s);
}

static bool has_ended(const struct sandbox *s)
{
	enum sandbox_state state = sandbox_state(s);

	return (state == SANDBOX_STOPPED || state == SANDBOX_FAILED) && !sandbox_is_resting(s);
}

/* Told once, and the key is free: a new sandbox has nothing of what the old one had, and a request
 * that was only late makes none. */
static int tell_end(struct fleet *fleet, const char *id, struct err *err)
{
	(void)err_set(err, ERR_GONE, 0,
	              "Idempotency-Key: sandbox %s, which this key made, has ended", id);
	(void)snprintf(err->field, sizeof(err->field), "Idempotency-Key");
	idempotency_drop(fleet, id);
	return err_hint(err, "send it again to create a new one: the key is free now");
}

/* It may have begun to end since it was told that it runs: then the request begins anew. */
static void sandbox_reply_running(struct sandbox *s, const struct err *err, void *arg)
{
	struct http_req *req = ((struct sandbox_reply *)arg)->late.req;
	struct err failure;

	if (!s || !req || sandbox_state(s) == SANDBOX_RUNNING) {
		sandbox_reply_send(s, err, arg);
		return;
	}
	(void)late_reply_take(arg, NULL);
	if (create_sandbox(req, &failure) < 0)
		http_reply_err(req, &failure);
}

/*
 * The answer to a key that made a sandbox before is that sandbox, and it runs. While it is
 *
 *	creating		the request waits; if it fails, so does this, and the key is free
 *	paused, or kept		it is resumed
 *	stopping		the request begins anew when that is over
 *	ended			the answer is an error, which frees the key
 *
 * Of its ports this caller has the tokens.
 */
static int tell_again(struct http_req *req, const char *id, const struct port_numbers *ports,
                      struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct sandbox *s = sandbox_find(api->fleet, caller_project(req), id);
	struct sandbox_reply *a;
	int r;

	if (s && is_ending(s))
		return wait_for_end(req, s);
	if (!s || has_ended(s))
		return tell_end(api->fleet, id, err);
	a = sandbox_reply_new(req, 201);
	a->tells_how = a->is_created = true;
	a->is_resumed = sandbox_is_resting(s);
	a->ports = *ports;
	r = sandbox_resume(s, sandbox_reply_running, a, err);
	return r < 0 ? late_reply_drop(a, r) : r;
}

/*
 * One thread does this, so that nobody comes between the look and the act: of any number of callers
 * one creates or resumes, and the others wait for the same sandbox. One that is just ending gives
 * way to a new one, or is resumed, when it has ended; a request with an idempotency key waits for
 * that too, since the name may be held by what is left of its own first try.
 */
static int create_now(struct http_req *req, uint64_t *ret_wait_ms, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct port_numbers ports;
	struct sandbox_spec spec;
	struct sandbox *s;
	struct idempotency_key key;
	const char *id;
	bool is_get;
	int r = body_read_create(http_json(req), &spec, &is_get, &ports, err);

	if (r < 0)
		return r;
	*ret_wait_ms = spec.wait_ms;
	r = idempotency_read(req, &key, err);
	if (r == 1) {
		spec.idempotency_key = &key;
		r = idempotency_find(api->fleet, caller_project(req), &key, &id, err);
	}
	if (r == 1)
		return tell_again(req, id, &ports, err);
	if (r < 0)
		return r;
	spec.key_id = key_id(http_user(req));
	s = spec.name ? sandbox_find_name(api->fleet, caller_project(req), spec.name) : NULL;
	if (s && is_ending(s) && (is_get || spec.idempotency_key))
		return wait_for_end(req, s);
	if (s && is_get)
		return take_sandbox(req, s, /* with_memory= */ true, sandbox_reply_got, err);
	if (!s && is_get && spec.name && api->pass_by_name) {
		r = api->pass_by_name(req, spec.name, err);
		if (r != 0)
			return r;
	}
	return make_sandbox(req, &spec, &ports, is_get, err);
}

int create_sandbox(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	int r = api->place ? api->place(req, /* refused= */ NULL, err) : 0;

	return r != 0 ? r : create_or_wait(req, create_now, err);
}

int get_sandbox(struct http_req *req, struct err *err)
{
	struct sandbox *s;
	struct reply reply;
	int r = find_sandbox(req, &s, err);

	if (r < 0)
		return r;
	sandbox_to_json(s, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

int update_sandbox(struct http_req *req, struct err *err)
{
	struct sandbox_patch patch;
	struct sandbox *s;
	struct sandbox_reply *a;
	int r = body_read_patch(http_json(req), &patch, err);

	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r < 0)
		return r;
	a = sandbox_reply_new(req, 200);
	r = sandbox_update(s, &patch, sandbox_reply_send, a, err);
	return r < 0 ? late_reply_drop(a, r) : r;
}

int delete_sandbox(struct http_req *req, struct err *err)
{
	struct sandbox *s;
	int r = find_sandbox(req, &s, err);

	if (r == 0)
		sandbox_delete(s, END_DELETED, sandbox_reply_send, sandbox_reply_new(req, 200));
	return r;
}

int pause_sandbox(struct http_req *req, struct err *err)
{
	struct pause_wish wish;
	struct sandbox *s;
	struct sandbox_reply *a;
	int r = body_read_pause(http_json(req), &wish, err);

	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r < 0)
		return r;
	a = sandbox_reply_new(req, 200);
	r = sandbox_pause_as(s, &wish, sandbox_reply_send, a, err);
	return r < 0 ? late_reply_drop(a, r) : r;
}

int stop_sandbox(struct http_req *req, struct err *err)
{
	struct sandbox *s;
	struct sandbox_reply *a;
	int r = find_sandbox(req, &s, err);

	if (r < 0)
		return r;
	a = sandbox_reply_new(req, 200);
	r = sandbox_stop(s, sandbox_reply_send, a, err);
	return r < 0 ? late_reply_drop(a, r) : r;
}

int resume_sandbox(struct http_req *req, struct err *err)
{
	struct sandbox *s = NULL;
	bool with_memory = true;
	int r = body_read_resume(http_json(req), &with_memory, err);

	if (r == 0)
		r = find_sandbox(req, &s, err);
	return r < 0 ? r : take_sandbox(req, s, with_memory, sandbox_reply_send, err);
}

int extend_sandbox(struct http_req *req, struct err *err)
{
	struct sandbox *s;
	struct reply reply;
	uint64_t ms;
	int r = body_read_extend(http_json(req), &ms, err);

	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r == 0)
		r = sandbox_extend(s, ms, err);
	if (r < 0)
		return r;
	sandbox_to_json(s, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

/* tag=NAME:VALUE; buf keeps the two. */
static int read_tag(const char *text, char *buf, size_t size, struct sandbox_filter *f,
                    struct err *err)
{
	char *colon;

	if (!text)
		return 0;
	if ((size_t)snprintf(buf, size, "%s", text) >= size)
		return err_field(err, "tag", "is longer than %zu bytes", size - 1);
	colon = strchr(buf, ':');
	if (!colon || colon == buf)
		return err_field(err, "tag", "must be NAME:VALUE");
	*colon = '\0';
	f->tag_name = buf;
	f->tag_value = colon + 1;
	return 0;
}

static int read_state(const char *text, struct sandbox_filter *f, struct err *err)
{
	if (!text)
		return 0;
	for (unsigned i = 0; i < SANDBOX_STATE_COUNT; i++)
		if (strcmp(text, sandbox_state_name((enum sandbox_state)i)) == 0) {
			f->state = text;
			return 0;
		}
	return err_field(err, "state",
	                 "must be one of creating, running, pausing, paused, stopping, stopped, "
	                 "failed");
}

struct list_query {
	struct sandbox_filter filter;
	struct node_list_place place;
	char tag[400];
};

static int read_list(const struct http_req *req, struct list_query *q, struct err *err)
{
	int r = list_page_read(req, "sb", &q->place, err);

	q->filter = (struct sandbox_filter){.project_id = caller_project(req),
	                                    .group = http_query(req, "group"),
	                                    .after_id = q->place.id[0] ? q->place.id : NULL,
	                                    .after_us = q->place.us,
	                                    .limit = (size_t)q->place.limit};
	if (r == 0)
		r = read_tag(http_query(req, "tag"), q->tag, sizeof(q->tag), &q->filter, err);
	return r == 0 ? read_state(http_query(req, "state"), &q->filter, err) : r;
}

struct page {
	struct json_writer *w;
	const struct sandbox *last;
};

static void put_sandbox(struct sandbox *s, void *arg)
{
	struct page *page = arg;

	page->last = s;
	sandbox_to_json(s, page->w, NULL);
}

/* What this node has: for a client of a node that is alone, or for another node that asks. */
static int reply_page(struct http_req *req, const struct list_query *q, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const bool is_ordered = list_page_is_ordered(req, &q->place);
	struct page page = {};
	struct reply reply;
	bool has_more = false;

	page.w = reply_begin(&reply);
	json_open_array(page.w, "sandboxes");
	(void)(is_ordered ? fleet_list_ordered : fleet_list)(api->fleet, &q->filter, put_sandbox,
	                                                     &page, &has_more);
	json_close_array(page.w);
	list_page_put_cursor(page.w, has_more ? sandbox_id(page.last) : NULL,
	                     has_more && is_ordered ? sandbox_created_us(page.last) : 0);
	return reply_send(&reply, req, 200, err);
}

static void add_own(struct sandbox *s, void *arg)
{
	node_list_add_own(arg, sandbox_created_us(s), sandbox_id(s), s);
}

static void put_row(const struct node_row *row, struct json_writer *w)
{
	json_open_object(w, NULL);
	sandbox_put_fields(row->own, w);
	json_put_str(w, "node", row->node);
	json_close_object(w);
}

/* Of all nodes of the cluster. */
static int reply_all(struct http_req *req, struct node_list *l, struct err *err)
{
	struct list_query q;
	bool has_more = false;
	int r = read_list(req, &q, err);

	if (r < 0)
		return r;
	(void)fleet_list_ordered(l->api->fleet, &q.filter, add_own, l, &has_more);
	if (has_more)
		node_list_own_has_more(l);
	return list_page_reply(req, l, q.place.limit, put_row, err);
}

static int read_for_directory(struct http_req *req, struct node_list_place *place, json_t *filter,
                              struct err *err)
{
	struct list_query q;
	int r = read_list(req, &q, err);
	const struct {
		const char *name, *value;
	} fields[] = {{"state", q.filter.state},
	              {"group", q.filter.group},
	              {"tag_name", q.filter.tag_name},
	              {"tag_value", q.filter.tag_value}};

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (fields[i].value)
			(void)json_object_set_new(filter, fields[i].name,
			                          json_string(fields[i].value));
	*place = q.place;
	return 0;
}

int list_sandboxes(struct http_req *req, struct err *err)
{
	static const struct node_list_kind kind = {.array = "sandboxes",
	                                           .id_kind = "sb",
	                                           .id_field = "id",
	                                           .time_field = "created_us",
	                                           .tells_node = true,
	                                           .read = read_for_directory,
	                                           .finish = reply_all};
	struct list_query q;
	int r = read_list(req, &q, err);

	if (r == 0)
		r = node_list_begin(req, &kind, err);
	return r == 0 ? reply_page(req, &q, err) : r;
}
