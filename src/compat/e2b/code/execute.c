// SPDX-License-Identifier: Apache-2.0
/*
 * Runs code as E2B's interpreter does: each event is a line of JSON, in ASCII, and the last one
 * says that it is over. If the client leaves, its code is interrupted. If the sandbox ends, the
 * connection is cut.
 */
#include "compat/e2b/code/code.h"
#include "compat/e2b/frame/body.h"
#include "compat/e2b/frame/objects.h"

#include "api/frame/text_carry.h"
#include "base/clock.h"
#include "base/units.h"

#include <string.h>

#define KEEPALIVE_US  (5 * SECOND_US)
#define LINE_MAX_SIZE ((size_t)96 * 1024 * 1024) /* a message, escaped to six times */
#define KEPT_MAX      (256 * 1024)
#define PART_MAX      4096 /* a longer line goes out in parts */
#define PIECE_MAX     (PART_MAX + FRAME_DATA_MAX + sizeof(((struct text_carry *)0)->bytes))
#define TYPE          "application/json"
#define CALL_ENV      "E2B_SANDBOX=true\n" /* a picture that is saved is shown then, as by theirs */

static const struct {
	const char *mime, *name;
} kinds[] = {
	{"text/plain", "text"},
	{"text/html", "html"},
	{"text/markdown", "markdown"},
	{"image/svg+xml", "svg"},
	{"image/png", "png"},
	{"image/jpeg", "jpeg"},
	{"application/pdf", "pdf"},
	{"text/latex", "latex"},
	{"application/json", "json"},
	{"application/javascript", "javascript"},
	{"application/vnd.cloche.table+json", "data"},
	{"application/vnd.cloche.chart+json", "chart"},
};

/* How the output is cut into events. Programs compare pieces with what E2B's own interpreters give:
 * R's print() writes a line in parts, and Java's println() ends it by itself. */
enum pieces { PIECES_AS_THEY_COME, PIECES_LINES, PIECES_ENDS_APART };

struct execution {
	struct http_req *req;
	struct code_call *call; /* NULL: over */
	bool is_ended, is_quiet;
	enum pieces pieces;
	struct buf part[2]; /* PIECES_LINES: of a line whose end has not come */
	struct text_carry held[2];
	struct buf text, json, line;
	struct loop_timer *keepalive;
};

static struct json_writer line_begin(struct execution *x, const char *type)
{
	struct json_writer w;

	buf_truncate(&x->json, 0);
	json_writer_init(&w, &x->json);
	json_open_object(&w, NULL);
	json_put_str(&w, "type", type);
	return w;
}

static void line_send(struct execution *x, struct json_writer *w)
{
	int r;

	json_close_object(w);
	r = json_writer_end(w);
	buf_truncate(&x->line, 0);
	if (r == 0)
		r = ascii_escape(x->json.data, x->json.len, &x->line);
	if (r == 0)
		r = buf_append_str(&x->line, "\n");
	if (r == 0)
		r = http_stream_write(x->req, x->line.data, x->line.len);
	if (r < 0 && !x->is_ended) {
		x->is_ended = true;
		http_stream_abort(x->req);
	}
	x->is_quiet = false;
	if (x->json.mem_size > KEPT_MAX)
		buf_done(&x->json);
	if (x->line.mem_size > KEPT_MAX)
		buf_done(&x->line);
	if (r == 0 && x->call && http_stream_pending(x->req) >= HTTP_HIGH_WATER)
		code_pause(x->call, true);
}

static void send_piece(struct execution *x, unsigned stream, const char *text, size_t len)
{
	struct json_writer w;

	if (len == 0 || x->is_ended)
		return;
	w = line_begin(x, stream ? "stderr" : "stdout");
	json_put_strn(&w, "text", text, len);
	e2b_put_time(&w, "timestamp", clock_wall_us());
	line_send(x, &w);
}

static void send_part(struct execution *x, unsigned stream)
{
	struct buf *part = &x->part[stream];

	send_piece(x, stream, part->data, part->len);
	buf_truncate(part, 0);
}

/* Sends whole lines, and keeps the part behind them. */
static void send_lines(struct execution *x, unsigned stream)
{
	struct buf *part = &x->part[stream];
	const char *end = memrchr(x->text.data, '\n', x->text.len);
	size_t len = end ? (size_t)(end + 1 - x->text.data) : 0;

	if (len > 0 && part->len == 0) {
		send_piece(x, stream, x->text.data, len);
	} else if (len > 0 && buf_append(part, x->text.data, len) == 0) {
		send_part(x, stream);
	}
	if (buf_append(part, x->text.data + len, x->text.len - len) < 0)
		send_piece(x, stream, x->text.data + len, x->text.len - len);
	if (part->len > PART_MAX)
		send_part(x, stream);
}

static void send_text(struct execution *x, unsigned stream)
{
	size_t len = x->text.len;
	bool is_split = x->pieces == PIECES_ENDS_APART && len > 1 && x->text.data[len - 1] == '\n';

	if (x->pieces == PIECES_LINES && len > 0) {
		send_lines(x, stream);
	} else {
		send_piece(x, stream, x->text.data, len - is_split);
		send_piece(x, stream, "\n", is_split);
	}
	buf_truncate(&x->text, 0);
}

static void send_parts(struct execution *x)
{
	for (unsigned i = 0; i < ARRAY_SIZE(x->part); i++)
		send_part(x, i);
}

static void on_output(enum frame_stream stream, const char *data, size_t len, void *arg)
{
	struct execution *x = arg;
	unsigned i = stream == STREAM_STDERR;

	if (text_take(&x->held[i], data, len, &x->text) == 0)
		send_text(x, i);
}

/* Sends what is held: nothing will complete it. */
static void send_held(struct execution *x)
{
	for (unsigned i = 0; i < ARRAY_SIZE(x->held); i++)
		if (text_flush(&x->held[i], &x->text) == 0)
			send_text(x, i);
	send_parts(x);
}

/* A string is shown in quotes, which are removed here. */
static void put_plain(struct json_writer *w, const char *text)
{
	size_t len = strlen(text);
	bool is_quoted =
		len >= 2 && text[0] == text[len - 1] && (text[0] == '\'' || text[0] == '"');

	json_put_strn(w, "text", text + is_quoted, len - 2 * (size_t)is_quoted);
}

static void put_bundle(struct json_writer *w, const json_t *data)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const json_t *value = json_object_get(data, kinds[i].mime);

		if (!value ||
		    (i == 0 && json_object_size(data) > 1 && json_string_length(value) == 0))
			continue; /* a bundle of the code's own may have no text */
		if (i == 0 && json_is_string(value))
			put_plain(w, json_string_value(value));
		else
			json_put_value(w, kinds[i].name, value);
	}
}

static void send_error(struct execution *x, const char *name, const char *value,
                       const json_t *lines)
{
	struct json_writer w = line_begin(x, "error");
	auto_call(buf_done) struct buf traceback = BUF_INIT(LINE_MAX_SIZE);
	json_t *line;
	size_t i;

	json_array_foreach(unconst(lines), i, line)(void) !buf_printf(
		&traceback, "%s%s", i > 0 ? "\n" : "", json_string_value(line));
	json_put_str(&w, "name", name ? name : "Error");
	json_put_str(&w, "value", value ? value : "");
	json_put_strn(&w, "traceback", buf_str(&traceback), traceback.len);
	line_send(x, &w);
}

static void on_event(enum code_event event, json_t *value, void *arg)
{
	struct execution *x = arg;
	struct json_writer w;

	if (x->is_ended)
		return;
	send_parts(x);
	if (event == CODE_EVENT_ERROR) {
		send_error(x, json_string_value(json_object_get(value, "name")),
		           json_string_value(json_object_get(value, "message")),
		           json_object_get(value, "traceback"));
		return;
	}
	w = line_begin(x, "result");
	json_put_bool(&w, "is_main_result", event == CODE_EVENT_RESULT);
	put_bundle(&w, json_object_get(value, "data"));
	line_send(x, &w);
}

static void send_count(struct execution *x, uint64_t count)
{
	struct json_writer w = line_begin(x, "number_of_executions");

	json_put_u64(&w, "execution_count", count);
	line_send(x, &w);
}

static void send_death(struct execution *x, const struct code_end *end)
{
	if (end->cause && strcmp(end->cause, "restarted") == 0)
		send_error(x, "ContextRestarting", "Context was restarted", NULL);
	else if (end->cause && strcmp(end->cause, "oom") == 0)
		send_error(x, "ContextDied", "The context ran out of memory", NULL);
	else
		send_error(x, "ContextDied", "The context has ended", NULL);
}

static void on_end(struct context *c, const struct code_end *end, const struct err *err, void *arg)
{
	struct execution *x = arg;
	struct json_writer w;

	(void)c;
	x->call = NULL;
	send_held(x);
	if (x->is_ended)
		return;
	if (err && (err->code == ERR_GONE || err->code == ERR_NOT_FOUND)) {
		x->is_ended = true; /* a broken connection is how clients know of a kill */
		http_stream_abort(x->req);
		return;
	}
	if (err) {
		auto_free char *told =
			xasprintf("%s%s%s", err->message, err->hint[0] ? ": " : "", err->hint);

		send_error(x, "ContextFailed", told, NULL);
	} else if (end->status == CODE_DIED) {
		send_death(x, end);
	}
	if (end && end->count > 0)
		send_count(x, end->count);
	w = line_begin(x, "end_of_execution");
	line_send(x, &w);
	if (x->is_ended)
		return;
	x->is_ended = true;
	http_stream_end(x->req);
}

static void on_drain(void *arg)
{
	struct execution *x = arg;

	if (x->call)
		code_pause(x->call, false);
}

static void on_keepalive(struct loop *loop, void *arg)
{
	struct execution *x = arg;
	bool was_quiet = x->is_quiet;

	(void)loop;
	send_parts(x);
	x->is_quiet = true;
	loop_timer_set_in(x->keepalive, KEEPALIVE_US);
	if (was_quiet && !x->is_ended) {
		struct json_writer w = line_begin(x, "keepalive");

		line_send(x, &w);
		x->is_quiet = true;
	}
}

static void execution_free(struct execution *x)
{
	if (x->call)
		code_abandon(x->call);
	loop_timer_free(x->keepalive);
	buf_done(&x->text);
	buf_done(&x->part[0]);
	buf_done(&x->part[1]);
	buf_done(&x->json);
	buf_done(&x->line);
	free(x);
}

static void on_done(void *arg)
{
	execution_free(arg);
}

static void forget(struct context *c, const struct code_end *end, const struct err *err, void *arg)
{
	(void)c;
	(void)end;
	(void)err;
	(void)arg;
}

/* Runs code without showing its result to anybody. */
static void run_aside(struct sandbox *s, const struct code_spec *of, char *code)
{
	static const struct code_ops ops = {.on_end = forget};
	struct code_spec spec = *of;
	struct code_call *call;
	struct err err;

	spec.code = code;
	spec.ends_with_caller = false;
	if (code)
		(void)!code_run(s, &spec, &ops, NULL, &call, &err);
	free(code);
}

static enum pieces pieces_of(const char *language)
{
	if (strcmp(language, "r") == 0)
		return PIECES_LINES;
	return strcmp(language, "java") == 0 ? PIECES_ENDS_APART : PIECES_AS_THEY_COME;
}

static int run(struct http_req *req, struct sandbox *s, const struct code_spec *spec,
               const char *language, const json_t *env, struct err *err)
{
	static const struct code_ops ops = {
		.on_output = on_output, .on_event = on_event, .on_end = on_end};
	struct execution *x = xnew0(struct execution);
	struct sandbox_facts facts;
	int r;

	sandbox_facts(s, &facts);
	*x = (struct execution){.req = req,
	                        .pieces = pieces_of(language),
	                        .part = {BUF_INIT(PIECE_MAX), BUF_INIT(PIECE_MAX)},
	                        .text = BUF_INIT(FRAME_DATA_MAX + sizeof(x->held[0].bytes)),
	                        .json = BUF_INIT(LINE_MAX_SIZE),
	                        .line = BUF_INIT(LINE_MAX_SIZE)};
	if (env)
		run_aside(s, spec, run_env_set(language, env));
	r = code_run(s, spec, &ops, x, &x->call, err);
	if (env)
		run_aside(s, spec, run_env_unset(language, env, facts.env));
	if (r < 0) {
		execution_free(x);
		return r;
	}
	x->keepalive = loop_timer_new(http_loop(req), on_keepalive, x);
	loop_timer_set_in(x->keepalive, KEEPALIVE_US);
	http_on_done(req, on_done, x);
	http_on_drain(req, on_drain, x);
	http_stream_start(req, 200, TYPE, -1);
	return 0;
}

/* Finds the requested context or language. */
static int choose(struct sandbox *s, struct code_spec *spec, const char **ret_language,
                  struct err *err)
{
	const struct context *c = spec->context ? context_find(s, spec->context) : NULL;

	if (spec->context && spec->language)
		return err_set(err, ERR_BAD_REQUEST, 0,
		               "Only one of context_id or language can be provided");
	if (spec->context && !c && !(spec->language = code_language(spec->context)))
		return code_no_context(spec->context, err);
	if (spec->context && !c)
		spec->context = NULL; /* a default one that is made by this */
	if (c) {
		*ret_language = context_language(c);
		return 0;
	}
	if (spec->language && !code_language(spec->language))
		return err_set(err, ERR_INTERNAL, 0, "No kernel for language %.40s",
		               spec->language);
	spec->language = spec->language ? code_language(spec->language) : "python";
	*ret_language = spec->language;
	return 0;
}

int code_execute(struct http_req *req, struct err *err)
{
	struct code_spec spec = {.ends_with_caller = true, .call_env = CALL_ENV};
	const char *language = "python";
	const json_t *env = NULL;
	struct sandbox *s;
	int r = envd_find_execute(req, &s, err);

	if (r == 0)
		r = body_text(http_json(req), "code", &spec.code, err);
	if (r == 0)
		r = body_text(http_json(req), "context_id", &spec.context, err);
	if (r == 0)
		r = body_text(http_json(req), "language", &spec.language, err);
	if (r == 0)
		r = body_strings(http_json(req), "env_vars", &env, err);
	if (r == 0 && !spec.code)
		r = err_field(err, "code", "is required");
	if (r == 0)
		r = choose(s, &spec, &language, err);
	if (r != 0)
		return r;
	return run(req, s, &spec, language, env, err);
}
