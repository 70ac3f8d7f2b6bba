// SPDX-License-Identifier: Apache-2.0
/*
 * One call that does the whole job, in a fresh sandbox that is gone at the end.
 *
 *	create --> files, one by one --> exec or code --> its output to the client
 *	       --> delete --> end
 *
 * Whatever goes wrong leads to the delete, and so does a client that leaves at any point. The reply
 * ends after the delete, so who has the whole reply knows that nothing is left. The sandbox is
 * found anew by its id at each step: others may have deleted it meanwhile.
 */
#include "api/api.h"
#include "api/code/code_reader.h"
#include "api/execs/exec_reader.h"
#include "api/frame/access.h"
#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/idempotency.h"
#include "api/handlers.h"
#include "api/sandboxes/create_wait.h"
#include "api/templates/image.h"
#include "api/templates/packages.h"
#include "sandbox/exec/exec_feed.h"

#include "sandbox/fileops/file_call.h"

#include <stdio.h>
#include <string.h>

#define GRACE_MS 60000 /* what the sandbox may live longer than the command: start, files, end */

struct run {
	const struct api *api;
	struct http_req *req; /* NULL: the client is gone, and what was borrowed from its body */
	enum event_format format;
	struct run_body body;
	char project_id[ID_SIZE], sandbox_id[ID_SIZE];
	struct file_call *call;
	size_t file, at; /* being written, and how far */
	struct exec_reader *reader;
	struct code_reader *code_reader;
	struct loop_timer
		*ending; /* the delete, begun from the loop: not from an exec's own callback */
	struct err err;
	bool has_failed;
	bool is_created, is_ending, is_gone;
};

static void write_next_file(struct run *run);

static void run_free(struct run *run)
{
	exec_reader_free(run->reader);
	code_reader_free(run->code_reader);
	loop_timer_free(run->ending);
	run_body_done(&run->body);
	free(run);
}

/* Once: a client may leave while the delete is under way. */
static void run_end(struct run *run)
{
	if (run->is_ending)
		return;
	run->is_ending = true;
	loop_timer_set_in(run->ending, 0);
}

static void run_fail(struct run *run, const struct err *err)
{
	run->err = *err;
	run->has_failed = true;
	run_end(run);
}

static struct sandbox *run_sandbox(struct run *run)
{
	return sandbox_find(run->api->fleet, run->project_id, run->sandbox_id);
}

/* The sandbox is gone: the last thing to tell the client. */
static void finish(struct run *run)
{
	run->is_gone = true;
	if (!run->req)
		run_free(run);
	else if (!run->has_failed)
		http_stream_end(run->req);
	else if (http_has_replied(run->req))
		http_stream_abort(run->req);
	else
		http_reply_err(run->req, &run->err);
}

static void on_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err; /* the fleet goes on trying, and has logged it */
	finish(arg);
}

static void on_ending(struct loop *loop, void *arg)
{
	struct run *run = arg;
	struct sandbox *s = run_sandbox(run);

	(void)loop;
	if (s && sandbox_state(s) != SANDBOX_STOPPED && sandbox_state(s) != SANDBOX_FAILED)
		sandbox_delete(s, END_DELETED, on_deleted, run);
	else
		finish(run);
}

static void on_client_done(void *arg)
{
	struct run *run = arg;

	run->req = NULL;
	exec_reader_free(take_ptr(run->reader));
	code_reader_free(take_ptr(run->code_reader));
	if (run->call)
		file_call_cancel(take_ptr(run->call));
	if (run->is_gone)
		run_free(run);
	else if (run->is_created)
		run_end(run);
}

static void on_reader_end(struct http_req *req, const struct err *err, void *arg)
{
	struct run *run = arg;

	(void)req;
	if (err)
		run_fail(run, err);
	else
		run_end(run);
}

static void start_exec(struct run *run, struct sandbox *s)
{
	const struct exec_events_options options = {
		.format = run->format, .is_following = true, .tells_start = true};
	struct exec_body *body = &run->body.exec;
	struct exec *e;
	struct err err;

	if (exec_start(s, &body->spec, &e, &err) < 0) {
		run_fail(run, &err);
		return;
	}
	if (body->input)
		(void)exec_feed(e, take_ptr(body->input), body->input_len, body->closes_stdin, NULL,
		                NULL);
	if (run->format == EVENTS_NONE)
		run->reader = exec_result_new(run->req, e, run->sandbox_id, on_reader_end, run);
	else
		run->reader = exec_events_new(run->req, e, &options, on_reader_end, run);
}

static void start_code(struct run *run, struct sandbox *s)
{
	const struct code_reader_spec spec = {.req = run->req,
	                                      .code = &run->body.code,
	                                      .format = run->format,
	                                      .end = on_reader_end,
	                                      .arg = run};
	struct err err;

	if (code_reader_new(&spec, s, &run->code_reader, &err) < 0)
		run_fail(run, &err);
}

static void push_file(struct run *run)
{
	const struct run_file *f = &run->body.files[run->file];

	while (run->at < f->len) {
		ssize_t n = file_call_write(run->call, f->data + run->at, f->len - run->at);

		if (n <= 0)
			return; /* on_room goes on, or on_end tells why not */
		run->at += (size_t)n;
	}
	file_call_finish(run->call);
}

static void file_on_room(void *arg)
{
	struct run *run = arg;

	if (run->at < run->body.files[run->file].len)
		push_file(run);
}

static void file_on_record(const struct record *r, void *arg)
{
	(void)r;
	(void)arg;
}

static void file_on_end(const struct err *err, void *arg)
{
	struct run *run = arg;
	struct err failure;

	run->call = NULL;
	if (err) {
		failure = *err;
		(void)err_prefix(&failure, "files[%zu]", run->file);
		run_fail(run, &failure);
		return;
	}
	run->file++;
	write_next_file(run);
}

static const struct file_call_ops file_ops = {
	.on_record = file_on_record, .on_room = file_on_room, .on_end = file_on_end};

static void start_file(struct run *run, struct sandbox *s)
{
	const struct run_file *f = &run->body.files[run->file];
	const char *user = run->body.exec.spec.user;
	const struct start op = {.kind = START_FILE,
	                         .op = FILE_WRITE,
	                         .flags = FILE_PARENTS | (f->has_mode ? FILE_MODE : 0),
	                         .path = unconst(f->path),
	                         .user = unconst(user ? user : ""),
	                         .mode = f->mode,
	                         .size = f->len};
	struct err err;

	run->at = 0;
	if (file_call_start(s, &op, &file_ops, run, &run->call, &err) < 0)
		run_fail(run, &err);
	else
		push_file(run);
}

static void write_next_file(struct run *run)
{
	struct sandbox *s = run_sandbox(run);
	struct http_req *req = run->req;
	struct err err;

	if (!s) {
		(void)err_set(&err, ERR_GONE, 0, "the sandbox was deleted meanwhile");
		run_fail(run, &err);
		return;
	}
	access_enter_again(req);
	if (run->file < run->body.n_files)
		start_file(run, s);
	else if (run->body.code.code)
		start_code(run, s);
	else
		start_exec(run, s);
	access_leave(req);
}

static void on_created(struct sandbox *s, const struct err *err, void *arg)
{
	struct run *run = arg;

	if (err) {
		run->err = *err;
		run->has_failed = true;
		finish(run); /* nothing to delete */
		return;
	}
	run->is_created = true;
	(void)snprintf(run->sandbox_id, sizeof(run->sandbox_id), "%s", sandbox_id(s));
	if (run->req) {
		http_reply_header(run->req, "Cloche-Sandbox-Id", run->sandbox_id);
		write_next_file(run);
	} else {
		run_end(run);
	}
}

static uint64_t lifetime_ms(const struct api *api, uint64_t timeout_ms)
{
	uint64_t max = fleet_config(api->fleet)->max_timeout_ms;

	if (timeout_ms == 0)
		return 0; /* the default */
	return max > 0 ? MIN(timeout_ms + GRACE_MS, max) : timeout_ms + GRACE_MS;
}

/* NULL: it is a command, of whatever language. */
static const char *language_of(const struct run_body *body)
{
	const struct code_spec *code = &body->code;

	return !code->code ? NULL : code->language ? code->language : "python";
}

static int run_now(struct http_req *req, uint64_t *ret_wait_ms, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct run_body body;
	struct run *run;
	int r = idempotency_refuse(req, err);

	if (r == 0)
		r = check_accept(req, result_types, err);
	if (r == 0)
		r = body_read_run(http_json(req), &body, err);
	if (r < 0)
		return r;
	*ret_wait_ms = body.sandbox.wait_ms;
	r = find_pulled(req, &body.sandbox, err);
	if (r == 0)
		r = find_packages(req, &body.sandbox, language_of(&body), err);
	if (r != 0) {
		run_body_done(&body);
		return r;
	}
	run = xnew0(struct run);
	*run = (struct run){.api = api, .req = req, .format = event_format_of(req), .body = body};
	run->ending = loop_timer_new(api->loop, on_ending, run);
	run->body.sandbox.timeout_ms = lifetime_ms(api, body.exec.spec.timeout_ms);
	run->body.sandbox.ends_with_caller = true;
	run->body.sandbox.key_id = key_id(http_user(req));
	(void)snprintf(run->project_id, sizeof(run->project_id), "%s", caller_project(req));
	r = sandbox_create(api->fleet, run->project_id, &run->body.sandbox, on_created, run, err);
	if (r < 0)
		run_free(run);
	else
		http_on_done(req, on_client_done, run);
	return r;
}

int run_once(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	int r = api->place ? api->place(req, /* refused= */ NULL, err) : 0;

	return r != 0 ? r : create_or_wait(req, run_now, err);
}
