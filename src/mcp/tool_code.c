// SPDX-License-Identifier: Apache-2.0
/*
 * run_code: output, results and the error in a form that suits a model: one text, and pictures as
 * pictures. Results count against the daemon's bound of held results, as in the native API.
 */
#include "api/frame/body.h"
#include "mcp/excerpt.h"
#include "mcp/mcp_private.h"
#include "sandbox/code/code_call.h"

#include <string.h>

#define SHOWN_BYTES_MAX (4 * 1024 * 1024)

struct running {
	struct code_call *call;
	struct excerpt out, err;
	json_t *shown; /* array of bundles */
	size_t held;   /* bytes of theirs */
	bool has_lost;
	json_t *error;
};

static void running_free(struct mcp_call *c)
{
	struct running *run = take_ptr(c->state);

	if (!run)
		return;
	if (run->call)
		code_abandon(run->call);
	fair_room_give(&c->mcp->api->held, c->project_id, run->held);
	excerpt_done(&run->out);
	excerpt_done(&run->err);
	json_decref(run->shown);
	json_decref(run->error);
	free(run);
}

static void on_output(enum frame_stream stream, const char *data, size_t len, void *arg)
{
	struct mcp_call *c = arg;
	struct running *run = c->state;

	excerpt_add(stream == STREAM_STDERR ? &run->err : &run->out, data, len);
	call_progress(c, data, len);
}

static size_t size_of(const json_t *data)
{
	size_t size = 64;
	const char *type;
	json_t *value;

	json_object_foreach ((json_t *)unconst(data), type, value)
		size += strlen(type) + (json_is_string(value) ? json_string_length(value) : 256);
	return size;
}

static void on_event(enum code_event event, json_t *value, void *arg)
{
	struct mcp_call *c = arg;
	struct running *run = c->state;
	struct api *api = c->mcp->api;
	json_t *data = json_object_get(value, "data");
	size_t size = size_of(data);

	if (event == CODE_EVENT_ERROR) {
		json_decref(run->error);
		run->error = json_incref(value);
		return;
	}
	if (run->held + size > SHOWN_BYTES_MAX ||
	    !fair_room_take(&api->held, c->project_id, size)) {
		run->has_lost = true;
		return;
	}
	run->held += size;
	(void)json_array_append(run->shown, data);
}

static const char *text_in(const json_t *data)
{
	static const char *const types[] = {"text/plain", "text/markdown", "text/html"};
	const char *text = NULL;

	for (size_t i = 0; !text && i < ARRAY_SIZE(types); i++)
		text = json_string_value(json_object_get(data, types[i]));
	return text;
}

static const char *picture_in(const json_t *data, const char **ret_type)
{
	static const char *const types[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		const char *picture = json_string_value(json_object_get(data, types[i]));

		*ret_type = types[i];
		if (picture)
			return picture;
	}
	return NULL;
}

static void put_line(struct excerpt *e, const char *text)
{
	size_t len = strlen(text);

	excerpt_add(e, text, len);
	if (len > 0 && text[len - 1] != '\n')
		excerpt_add(e, "\n", 1);
}

static void put_error(struct excerpt *e, const json_t *error)
{
	const json_t *lines = json_object_get(error, "traceback"), *line;
	const char *hint = json_string_value(json_object_get(error, "hint"));
	size_t i;

	json_array_foreach(lines, i, line)
	{
		put_line(e, json_string_value(line));
	}
	if (json_array_size(lines) == 0) {
		put_line(e, json_string_value(json_object_get(error, "name")));
		put_line(e, json_string_value(json_object_get(error, "message")));
	}
	if (hint)
		put_line(e, hint);
}

/* Appends the results, the error and the cause of the end after the output. */
static void put_rest(struct running *run, const struct code_end *end, struct excerpt *e)
{
	const char *type, *text;
	const json_t *data;
	size_t i;

	json_array_foreach(run->shown, i, data)
	{
		text = picture_in(data, &type) ? NULL : text_in(data);
		if (text)
			put_line(e, text);
	}
	if (run->error)
		put_error(e, run->error);
	if (run->has_lost)
		put_line(e, "[some results were too large to be shown]");
	if (end->cause) {
		excerpt_add(e, "[ended by ", 10);
		excerpt_add(e, end->cause, strlen(end->cause));
		excerpt_add(e, "]\n", 2);
	}
	if (end->is_restarted)
		put_line(e, "[this ran in a fresh interpreter: earlier variables are gone]");
}

static void put_answer(struct mcp_call *c, struct running *run, const struct code_end *end,
                       struct result *r)
{
	auto_call(buf_done) struct buf text = BUF_INIT(3 * (EXCERPT_MAX + 1));
	struct excerpt rest;
	const char *type, *picture;
	const json_t *data;
	size_t i;

	excerpt_init(&rest);
	put_rest(run, end, &rest);
	json_put_str(&r->s, "sandbox_id", c->sandbox_id);
	json_put_str(&r->s, "status", code_status_name(end->status));
	json_put_str(&r->s, "cause", end->cause);
	result_stream(r, "stdout", &run->out, &text);
	result_stream(r, "stderr", &run->err, &text);
	result_stream(r, "result", &rest, &text);
	excerpt_done(&rest);
	if (run->error)
		json_put_value(&r->s, "error", run->error);
	result_text(r, buf_str(&text), text.len);
	json_array_foreach(run->shown, i, data)
	{
		picture = picture_in(data, &type);
		if (picture)
			result_image(r, type, picture);
	}
}

static void on_end(struct context *context, const struct code_end *end, const struct err *err,
                   void *arg)
{
	struct mcp_call *c = arg;
	struct running *run = c->state;
	struct result r;

	(void)context;
	run->call = NULL;
	if (!err) {
		result_init(&r);
		r.is_error = end->status != CODE_OK &&
		             !(end->status == CODE_EXIT && end->exit_code == 0);
		put_answer(c, run, end, &r);
	}
	running_free(c);
	if (err)
		call_fail(c, err);
	else
		call_end(c, &r);
}

static int run_code(struct mcp_call *c, struct sandbox *s, struct err *err)
{
	static const struct code_ops ops = {
		.on_output = on_output, .on_event = on_event, .on_end = on_end};
	struct running *run;
	struct code_spec spec = {.timeout_ms = MCP_CALL_TIMEOUT_MS, .ends_with_caller = true};
	/* clang-format off */
	const struct json_field fields[] = {
		{"code",       JSON_FIELD_STRING, &spec.code, .required = true, .max = CODE_BYTES_MAX},
		{"language",   JSON_FIELD_STRING, &spec.language, .max = 64},
		{"context",    JSON_FIELD_STRING, &spec.context, .min = 1, .max = 64},
		{"timeout_ms", JSON_FIELD_U64,    &spec.timeout_ms, .min = 1, .max = TIMEOUT_MS_MAX},
	};
	/* clang-format on */
	int r = json_read(c->arguments, "", fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	run = xnew0(struct running);
	excerpt_init(&run->out);
	excerpt_init(&run->err);
	run->shown = json_array();
	c->state = run;
	r = code_run(s, &spec, &ops, c, &run->call, err);
	if (r < 0)
		running_free(c);
	return r;
}

const struct mcp_tool tool_run_code = {
	.name = "run_code",
	.title = "Run code",
	.description = "Runs code in a sandbox and returns what it printed, the value of its last "
		       "expression, pictures that it showed, and the error if there was one. "
		       "Variables, imports and files carry over from call to call.",
	.properties =
		"\"code\":{\"type\":\"string\",\"description\":\"The source code to run.\"},"
		"\"language\":{\"type\":\"string\",\"description\":\"python (without it), "
		"javascript, typescript, bash, r or java.\"},"
		"\"context\":{\"type\":\"string\",\"description\":\"An interpreter of its own, by "
		"name or id; made beforehand through the API.\"},"
		"\"timeout_ms\":{\"type\":\"integer\",\"minimum\":1,\"description\":\"Interrupt it "
		"after this long; 120000 without it.\"}",
	.required = "[\"code\"]",
	.flags = TOOL_IN_SANDBOX,
	.run = run_code,
	.cancel = running_free,
};
