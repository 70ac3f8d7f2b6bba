// SPDX-License-Identifier: Apache-2.0
/*
 * Sandboxes. What takes the broker's time is answered later: a struct answer waits for it in place
 * of the request, whose client may leave meanwhile.
 */
#include "api/api.h"
#include "api/body.h"
#include "api/cursor.h"
#include "api/find.h"
#include "api/handlers.h"
#include "api/reply.h"

#include <stdio.h>
#include <string.h>

#define LIST_LIMIT_DEFAULT 20
#define LIST_LIMIT_MAX     100

struct answer {
	struct http_req *req; /* NULL: the client is gone */
	int status;
	bool is_create;
};

static void on_client_done(struct http_req *req, bool whole, void *arg)
{
	struct answer *a = arg;

	(void)req;
	(void)whole;
	a->req = NULL;
}

static struct answer *answer_new(struct http_req *req, int status)
{
	struct answer *a = xnew0(struct answer);

	*a = (struct answer){.req = req, .status = status, .is_create = status == 201};
	http_on_done(req, on_client_done, a);
	return a;
}

static void answer_free(struct answer *a)
{
	if (a->req)
		http_on_done(a->req, NULL, NULL); /* a reply's end concerns nobody any more */
	free(a);
}

static void on_undone(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	(void)arg;
}

static void on_answer(struct sandbox *s, const struct err *err, void *arg)
{
	struct answer *a = arg;
	struct http_req *req = a->req;
	int status = a->status;
	bool is_create = a->is_create;
	struct reply reply;

	answer_free(a);
	if (!req) {
		if (s && is_create) /* nobody knows its id */
			sandbox_delete(s, END_DELETED, on_undone, NULL);
		return;
	}
	if (err) {
		http_reply_err(req, err);
		return;
	}
	sandbox_to_json(s, reply_begin_bare(&reply), NULL);
	reply_send_late(&reply, req, status);
}

int create_sandbox(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct sandbox_spec spec;
	struct answer *a;
	int r = no_query(req, err);

	if (r == 0)
		r = body_read_create(http_json(req), &spec, err);
	if (r < 0)
		return r;
	spec.key_id = key_id(http_user(req));
	a = answer_new(req, 201);
	r = sandbox_create(api->fleet, caller_project(req), &spec, on_answer, a, err);
	if (r < 0)
		answer_free(a);
	return r;
}

int get_sandbox(struct http_req *req, struct err *err)
{
	struct sandbox *s;
	struct reply reply;
	int r = no_query(req, err);

	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r < 0)
		return r;
	sandbox_to_json(s, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

int update_sandbox(struct http_req *req, struct err *err)
{
	struct sandbox_patch patch;
	struct sandbox *s;
	struct answer *a;
	int r = no_query(req, err);

	if (r == 0)
		r = body_read_patch(http_json(req), &patch, err);
	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r < 0)
		return r;
	a = answer_new(req, 200);
	r = sandbox_update(s, &patch, on_answer, a, err);
	if (r < 0)
		answer_free(a);
	return r;
}

int delete_sandbox(struct http_req *req, struct err *err)
{
	struct sandbox *s;
	int r = no_query(req, err);

	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r == 0)
		sandbox_delete(s, END_DELETED, on_answer, answer_new(req, 200));
	return r;
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
	                 "must be one of creating, running, stopping, stopped, failed");
}

struct page {
	struct json_writer *w;
	char last_id[ID_SIZE];
};

static void put_sandbox(struct sandbox *s, void *arg)
{
	struct page *page = arg;

	(void)snprintf(page->last_id, sizeof(page->last_id), "%s", sandbox_id(s));
	sandbox_to_json(s, page->w, NULL);
}

static int reply_page(struct http_req *req, const struct sandbox_filter *filter, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct page page = {};
	struct reply reply;
	char cursor[CURSOR_SIZE];
	bool has_more = false;

	page.w = reply_begin(&reply);
	json_open_array(page.w, "sandboxes");
	(void)fleet_list(api->fleet, filter, put_sandbox, &page, &has_more);
	json_close_array(page.w);
	if (has_more)
		cursor_make(page.last_id, cursor);
	json_put_str(page.w, "next_cursor", has_more ? cursor : NULL);
	return reply_send(&reply, req, 200, err);
}

int list_sandboxes(struct http_req *req, struct err *err)
{
	static const char *const allowed[] = {"limit", "cursor", "tag", "state", NULL};
	struct sandbox_filter filter = {.project_id = caller_project(req)};
	const char *cursor = http_query(req, "cursor");
	uint64_t limit = LIST_LIMIT_DEFAULT;
	char after_id[ID_SIZE], tag[400];
	int r = http_query_check(req, allowed, err);

	if (r == 0)
		r = http_query_u64(req, "limit", 1, LIST_LIMIT_MAX, &limit, err);
	if (r == 0)
		r = read_tag(http_query(req, "tag"), tag, sizeof(tag), &filter, err);
	if (r == 0)
		r = read_state(http_query(req, "state"), &filter, err);
	if (r == 0 && cursor) {
		r = cursor_parse(cursor, "sb", after_id, err);
		filter.after_id = after_id;
	}
	if (r < 0)
		return r;
	filter.limit = (size_t)limit;
	return reply_page(req, &filter, err);
}
