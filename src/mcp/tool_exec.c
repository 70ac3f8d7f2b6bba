// SPDX-License-Identifier: Apache-2.0
/* exec: one shell command, to its end. Its output is read from the spool as it comes. */
#include "api/frame/body.h"
#include "base/text/missing.h"
#include "mcp/excerpt.h"
#include "mcp/mcp_private.h"
#include "proto/start.h"
#include "sandbox/exec/exec.h"
#include "sandbox/exec/exec_feed.h"

#include <string.h>

#define EVENTS_PER_TURN 256

struct running {
	struct exec *e; /* NULL: it was removed */
	struct exec_watch watch;
	struct loop_job *again;
	uint64_t seq;
	struct excerpt out, err;
};

static void running_free(struct mcp_call *c)
{
	struct running *run = take_ptr(c->state);

	if (!run)
		return;
	exec_watch_remove(&run->watch);
	loop_job_free(run->again);
	excerpt_done(&run->out);
	excerpt_done(&run->err);
	free(run);
}

static void cancel(struct mcp_call *c)
{
	struct running *run = c->state;

	if (run && run->e)
		exec_kill(run->e);
	running_free(c);
}

static void fail(struct mcp_call *c, const struct err *err)
{
	running_free(c);
	call_fail(c, err);
}

static void put_end(struct buf *text, int code, const char *why)
{
	int r = 0;

	if (code > 0)
		r = buf_printf(text, "[exit code %d]\n", code);
	else if (code < 0 && why)
		r = buf_printf(text, "[%s]\n", why);
	if (r < 0)
		abort(); /* the reasons are ours and short */
}

/* A model takes "temporary failure in name resolution" by its word, and tries again. */
static void put_hint(struct result *r, struct buf *text)
{
	char hint[MISSING_HINT_SIZE];

	if (!missing_hint_in(text->data, text->len, hint))
		return;
	json_put_str(&r->s, "hint", hint);
	if (buf_printf(text, "Hint: %s\n", hint) < 0)
		abort(); /* there is room for it */
}

static void finish(struct mcp_call *c)
{
	auto_call(buf_done) struct buf text = BUF_INIT(2 * EXCERPT_MAX + 512 + MISSING_HINT_SIZE);
	struct running *run = c->state;
	int code = exec_exit_code(run->e);
	const char *why = exec_why(run->e);
	struct result r;

	result_init(&r);
	r.is_error = code != 0;
	json_put_str(&r.s, "sandbox_id", c->sandbox_id);
	json_put_str(&r.s, "exec_id", exec_id(run->e));
	if (code >= 0)
		json_put_i64(&r.s, "exit_code", code);
	else
		json_put_null(&r.s, "exit_code");
	result_stream(&r, "stdout", &run->out, &text);
	result_stream(&r, "stderr", &run->err, &text);
	json_put_str(&r.s, "why", why);
	put_end(&text, code, why);
	if (code > 0)
		put_hint(&r, &text);
	result_text(&r, buf_str(&text), text.len);
	running_free(c);
	call_end(c, &r);
}

static void take(struct mcp_call *c, const struct spool_event *event)
{
	struct running *run = c->state;
	struct excerpt *e = event->kind == SPOOL_STDERR ? &run->err : &run->out;

	run->seq = event->seq;
	if (event->kind == SPOOL_GAP) {
		excerpt_skip(e, event->lost_bytes);
		return;
	}
	excerpt_add(e, event->data, event->len);
	call_progress(c, event->data, event->len);
}

static void pump(struct mcp_call *c)
{
	struct running *run = c->state;
	struct spool_event event;
	struct err err;
	int r = 1;

	if (!run->e) {
		(void)err_set(&err, ERR_GONE, 0, "the command was removed, or its sandbox ended");
		fail(c, &err);
		return;
	}
	for (unsigned n = 0; r > 0 && n < EVENTS_PER_TURN; n++) {
		if (n > 0 && !loop_has_time(c->mcp->api->loop))
			break;
		r = spool_next(exec_spool(run->e), run->seq, &event, &err);
		if (r > 0)
			take(c, &event);
	}
	if (r < 0)
		fail(c, &err);
	else if (r > 0)
		loop_job_start(run->again);
	else if (exec_state(run->e) == EXEC_FAILED)
		fail(c, exec_failure(run->e));
	else if (exec_is_over(run->e))
		finish(c);
}

static void on_watch(struct exec *e, void *arg)
{
	struct mcp_call *c = arg;
	struct running *run = c->state;

	run->e = e;
	pump(c);
}

static bool on_again(struct loop *loop, void *arg)
{
	(void)loop;
	pump(arg);
	return true;
}

static int read_exec(const json_t *arguments, struct exec_spec *ret, const char **ret_stdin,
                     struct err *err)
{
	json_t *env = NULL;
	/* clang-format off */
	const struct json_field fields[] = {
		{"command",    JSON_FIELD_STRING, &ret->shell, .required = true, .min = 1, .max = ARGV_BYTES_MAX},
		{"cwd",        JSON_FIELD_STRING, &ret->cwd, .min = 1, .max = START_PATH_MAX - 1},
		{"env",        JSON_FIELD_OBJECT, &env},
		{"stdin",      JSON_FIELD_STRING, ret_stdin, .max = STDIN_BYTES_MAX},
		{"timeout_ms", JSON_FIELD_U64,    &ret->timeout_ms, .min = 1, .max = TIMEOUT_MS_MAX},
	};
	/* clang-format on */
	int r = json_read(arguments, "", fields, ARRAY_SIZE(fields), err);

	ret->env = env;
	ret->has_stdin = *ret_stdin != NULL;
	return r == 0 && env ? body_check_env(env, "env", err) : r;
}

static int run_exec(struct mcp_call *c, struct sandbox *s, struct err *err)
{
	struct exec_spec spec = {.timeout_ms = MCP_CALL_TIMEOUT_MS, .ends_with_caller = true};
	const char *input = NULL;
	struct running *run;
	struct exec *e;
	int r = read_exec(c->arguments, &spec, &input, err);

	if (r == 0)
		r = exec_start(s, &spec, &e, err);
	if (r < 0)
		return r;
	if (input)
		(void)exec_feed(e, xstrdup(input), strlen(input), /* closes= */ true, NULL, NULL);
	run = xnew0(struct running);
	run->e = e;
	run->watch = (struct exec_watch){.fn = on_watch, .arg = c};
	run->again = loop_job_new(c->mcp->api->loop, on_again, c);
	excerpt_init(&run->out);
	excerpt_init(&run->err);
	c->state = run;
	exec_watch_add(e, &run->watch);
	loop_job_start(run->again);
	return 0;
}

const struct mcp_tool tool_exec = {
	.name = "exec",
	.title = "Run a command",
	.description = "Runs a shell command in a sandbox to its end and returns its output and "
		       "exit code. Files stay; shell variables and the working directory do not: "
		       "use run_code with language bash for those.",
	.properties =
		"\"command\":{\"type\":\"string\",\"description\":\"Run by /bin/sh -c.\"},"
		"\"cwd\":{\"type\":\"string\",\"description\":\"Where it runs; without it the "
		"image's "
		"WORKDIR or the home directory.\"},"
		"\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"
		"\"stdin\":{\"type\":\"string\"},"
		"\"timeout_ms\":{\"type\":\"integer\",\"minimum\":1,\"description\":\"End it after "
		"this long; 120000 without it.\"}",
	.required = "[\"command\"]",
	.flags = TOOL_IN_SANDBOX,
	.run = run_exec,
	.cancel = cancel,
};
