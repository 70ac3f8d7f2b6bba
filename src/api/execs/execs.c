// SPDX-License-Identifier: Apache-2.0
/* Execs: start one (sync, streamed, detached), look at them, read their output again, signal,
 * resize, remove. */
#include "api/execs/exec_reader.h"
#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/idempotency.h"
#include "api/frame/reply.h"
#include "api/frame/wake.h"
#include "api/handlers.h"
#include "sandbox/exec/exec_feed.h"

#include "base/parse.h"

#define LIST_LIMIT_DEFAULT 100
#define LIST_LIMIT_MAX     1000

static int reply_exec(struct http_req *req, const struct exec *e, struct err *err)
{
	struct reply reply;

	exec_to_json(e, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

static int reply_detached(struct http_req *req, const struct exec *e, struct err *err)
{
	struct reply reply;

	exec_to_json(e, reply_begin(&reply), "exec");
	return reply_send(&reply, req, 202, err);
}

/* With a key that was there before: that exec, and nothing is fed to it again. */
static int start_once(struct http_req *req, struct sandbox *s, struct exec_body *body,
                      struct exec **ret, struct err *err)
{
	struct idempotency_key key;
	const char *id;
	int r = idempotency_read(req, &key, err);

	if (r == 1) {
		body->spec.idempotency_key = &key;
		r = idempotency_find(sandbox_fleet(s), sandbox_project_id(s), &key, &id, err);
	}
	if (r < 0)
		return r;
	if (r == 0) {
		r = exec_start(s, &body->spec, ret, err);
		body->spec.idempotency_key = NULL;
		return r;
	}
	*ret = exec_find(s, id);
	if (!*ret)
		return err_set(err, ERR_GONE, 0, "%s, which this Idempotency-Key made, is gone",
		               id);
	exec_body_done(body);
	return 0;
}

int create_exec(struct http_req *req, struct err *err)
{
	struct exec_events_options options = {
		.format = event_format_of(req), .is_following = true, .tells_start = true};
	auto_call(exec_body_done) struct exec_body body = {};
	struct exec_reader *reader;
	struct sandbox *s;
	struct exec *e;
	int r = check_accept(req, result_types, err);

	if (r == 0)
		r = body_read_exec(http_json(req), &body, err);
	if (r == 0)
		r = find_awake(req, &s, err);
	if (r == 0)
		r = start_once(req, s, &body, &e, err);
	if (r != 0)
		return r;
	if (body.input)
		(void)exec_feed(e, take_ptr(body.input), body.input_len, body.closes_stdin, NULL,
		                NULL);
	if (body.is_detached)
		return reply_detached(req, e, err);
	if (options.format == EVENTS_NONE)
		reader = exec_result_new(req, e, NULL, NULL, NULL);
	else
		reader = exec_events_new(req, e, &options, NULL, NULL);
	reader->kills_on_disconnect = body.spec.ends_with_caller;
	return 0;
}

struct page {
	struct json_writer *w;
	uint64_t left;
};

static void put_exec(struct exec *e, void *arg)
{
	struct page *page = arg;

	if (page->left == 0)
		return;
	page->left--;
	exec_to_json(e, page->w, NULL);
}

int list_execs(struct http_req *req, struct err *err)
{
	struct page page = {.left = LIST_LIMIT_DEFAULT};
	struct reply reply;
	struct sandbox *s;
	int r = http_query_u64(req, "limit", 1, LIST_LIMIT_MAX, &page.left, err);

	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r < 0)
		return r;
	page.w = reply_begin(&reply);
	json_open_array(page.w, "execs");
	exec_each(s, put_exec, &page);
	json_close_array(page.w);
	return reply_send(&reply, req, 200, err);
}

int get_exec(struct http_req *req, struct err *err)
{
	struct exec *e;
	int r = find_exec(req, &e, err);

	if (r == 0)
		r = reply_exec(req, e, err);
	return r;
}

int delete_exec(struct http_req *req, struct err *err)
{
	struct exec *e;
	int r = find_exec(req, &e, err);

	if (r == 0)
		r = reply_exec(req, e, err);
	if (r == 0)
		exec_remove(e);
	return r;
}

/* `after`, or what a server-sent event client that comes back tells in a header. */
static int read_after(const struct http_req *req, uint64_t *ret, struct err *err)
{
	const char *last_id = http_header(req, "Last-Event-ID");

	if (last_id && !http_query(req, "after") && parse_u64(last_id, INT64_MAX, ret) < 0)
		return err_field(err, "Last-Event-ID", "must be a sequence number");
	return http_query_u64(req, "after", 0, INT64_MAX, ret, err);
}

int get_exec_output(struct http_req *req, struct err *err)
{
	struct exec_events_options options = {.format = event_format_of(req)};
	struct exec *e;
	int r = check_accept(req, event_types, err);

	if (r == 0)
		r = read_after(req, &options.after, err);
	if (r == 0)
		r = http_query_bool(req, "follow", &options.is_following, err);
	if (r == 0)
		r = find_exec(req, &e, err);
	if (r < 0)
		return r;
	if (options.format == EVENTS_NONE)
		options.format = EVENTS_NDJSON;
	(void)exec_events_new(req, e, &options, NULL, NULL);
	return 0;
}

int signal_exec(struct http_req *req, struct err *err)
{
	struct exec *e;
	bool whole_tree;
	int signo;
	int r = body_read_signal(http_json(req), &signo, &whole_tree, err);

	if (r == 0)
		r = find_exec(req, &e, err);
	if (r == 0)
		r = exec_signal(e, signo, whole_tree, err);
	if (r == 0)
		r = reply_exec(req, e, err);
	return r;
}

int resize_exec(struct http_req *req, struct err *err)
{
	uint16_t rows = 0, cols = 0;
	struct exec *e;
	int r = body_read_terminal(http_json(req), "", &rows, &cols, err);

	if (r == 0)
		r = find_exec(req, &e, err);
	if (r == 0)
		r = exec_resize(e, rows, cols, err);
	if (r == 0)
		r = reply_exec(req, e, err);
	return r;
}
