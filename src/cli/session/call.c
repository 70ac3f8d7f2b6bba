// SPDX-License-Identifier: Apache-2.0
#include "cli/session/call.h"

#include "cli/frame/command.h"
#include "cli/frame/commands.h"
#include "cli/remote/lines.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define EVENT_MAX (100 * 1024 * 1024) /* a result of 16 MiB, escaped to six times */

struct reading {
	const struct call *call;
	json_t *end;          /* the event "done" */
	bool has_lost_reader; /* of our own stdout */
};

/* An event "failed" ends a call that cannot go on. */
static int take_failure(const json_t *event, struct err *err)
{
	const json_t *error = json_object_get(event, "error");
	const char *hint = command_text(error, "hint");

	(void)err_set(err, ERR_UNAVAILABLE, 0, "%s", command_text(error, "message"));
	return *hint ? err_hint(err, "%s", hint) : -EINVAL;
}

/* 1: the call is over. */
static int take_event(void *arg, const char *line, size_t len, struct err *err)
{
	struct reading *reading = arg;
	auto_json json_t *event = NULL;
	const char *type;
	int r = json_parse(line, len, &event, err);

	if (r < 0)
		return err_prefix(err, "an event");
	type = command_text(event, "type");
	if (strcmp(type, "started") == 0)
		cancel_call_runs(reading->call->cancel);
	r = show_event(reading->call->show, event, line, len, err);
	reading->has_lost_reader = r == -EPIPE;
	if (r < 0)
		return r;
	if (strcmp(type, "failed") == 0)
		return take_failure(event, err);
	if (strcmp(type, "done") != 0)
		return 0;
	reading->end = json_incref(event);
	return 1;
}

static json_t *make_body(const struct call *c, const char *code, size_t len)
{
	json_t *body = json_object();

	(void)json_object_set_new(body, "code", json_stringn(code, len));
	(void)json_object_set_new(body, "kill_on_disconnect", json_true());
	if (c->language)
		(void)json_object_set_new(body, "language", json_string(c->language));
	if (c->context)
		(void)json_object_set_new(body, "context", json_string(c->context));
	if (c->timeout_ms)
		(void)json_object_set_new(body, "timeout_ms",
		                          json_integer((json_int_t)c->timeout_ms));
	return body;
}

static int read_call(struct reading *reading, const json_t *body, struct err *err)
{
	const struct call *c = reading->call;
	struct remote_request request = {.accept = "application/x-ndjson", .body = body};
	auto_free char *path = remote_path("sandboxes", c->sandbox, "code");
	int r = remote_begin(c->remote, "POST", path, &request, err);

	if (r == 0)
		r = lines_read(c->remote, EVENT_MAX, take_event, reading, err);
	if (r == 0)
		return err_set(err, ERR_UNAVAILABLE, 0, "the connection broke: the call is lost");
	return r;
}

/* What the error itself does not say. */
static void explain(const struct call *c, const json_t *end)
{
	const char *cause = command_text(end, "cause");

	if (c->show->output.mode == OUTPUT_EVENTS)
		return;
	if (strcmp(cause, "timeout") == 0)
		(void)fputs("cloche: its time was up\n", stderr);
	else if (strcmp(cause, "oom") == 0)
		(void)fputs("cloche: the sandbox is out of memory\n", stderr);
	if (json_is_true(json_object_get(end, "restarted")))
		(void)fputs("cloche: this ran in a fresh interpreter: the state of the one before "
		            "it is gone\n",
		            stderr);
}

static int end_status(const json_t *end)
{
	const char *status = command_text(end, "status");
	const char *cause = command_text(end, "cause");
	const json_t *code = json_object_get(end, "exit_code");
	uint64_t signo = command_number(end, "signal");

	if (strcmp(cause, "timeout") == 0)
		return EXIT_TIMEOUT;
	if (strcmp(cause, "interrupted") == 0)
		return EXIT_SIGNAL + SIGINT;
	if (signo > 0)
		return EXIT_SIGNAL + (int)(signo & 127);
	if (json_is_integer(code))
		return (int)(json_integer_value(code) & 255);
	return strcmp(status, "ok") == 0 ? 0 : 1;
}

int call_run(const struct call *c, const char *code, size_t len, struct call_end *ret,
             struct err *err)
{
	struct reading reading = {.call = c};
	auto_json json_t *body = make_body(c, code, len);
	const char *context = c->context ? c->context : c->language ? c->language : "python";
	bool was_let_go;
	int r;

	if (!json_object_get(body, "code"))
		return err_set(err, ERR_INVALID_FIELD, 0, "the code is not valid UTF-8");
	c->show->images.n_call = 0;
	cancel_call(c->cancel, c->remote, c->sandbox, context);
	r = read_call(&reading, body, err);
	was_let_go = cancel_call_ended(c->cancel);
	if (reading.end) {
		explain(c, reading.end);
		*ret = (struct call_end){
			.status = end_status(reading.end),
			.is_exit = strcmp(command_text(reading.end, "status"), "exit") == 0};
		json_decref(reading.end);
		return 0;
	}
	if (reading.has_lost_reader) {
		*ret = (struct call_end){.status = EXIT_SIGNAL + SIGPIPE};
		return 0;
	}
	if (!was_let_go)
		return r;
	*ret = (struct call_end){.status = EXIT_SIGNAL + SIGINT};
	return 0;
}
