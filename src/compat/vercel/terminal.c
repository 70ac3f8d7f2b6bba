// SPDX-License-Identifier: Apache-2.0
/*
 * Terminals of a session: a WebSocket. The client's first message says what to run in a PTY, and
 * the size of the terminal. Then binary messages are stdin one way and output the other; text
 * messages are JSON: {"type": "start" | "resize"} in, {"type": "exit", "code"} out.
 *
 * A browser client cannot set headers, so it shows a token of its session in the query. The token
 * is valid only for terminals of that session, as long as the session runs and the key that asked
 * for it is valid. So the request is diverted before the usual check of keys.
 */
#include "api/execs/exec_reader.h"
#include "api/frame/body.h"
#include "api/frame/reply.h"

#include "compat/vercel/handlers.h"
#include "compat/vercel/terminal.h"
#include "compat/vercel/wire.h"
#include "http/parse.h"
#include "http/target.h"
#include "http/websocket.h"
#include "tenant/key_token.h"

#include <stdio.h>
#include <string.h>

#define PATH_START  "/vercel/terminal/"
#define ROWS        24
#define COLS        80
#define CONTROL_MAX 4096

enum { CLOSE_NORMAL = 1000, CLOSE_POLICY = 1008 };

struct terminal {
	struct vercel *vercel;
	char session_id[ID_SIZE];
	struct loop *loop;
	struct http_ws *ws;
	struct exec *e; /* NULL: not begun, or removed */
	struct exec_watch watch;
	struct loop_job *again;
	uint64_t seq;
	struct buf held; /* stdin that had no room yet */
	bool has_begun, is_over;
};

/* There is no first token of the sandbox's creator: each key that asks gets one. */
static struct key_tokens tokens_of(const struct vercel_session *s)
{
	return (struct key_tokens){
		.project_id = s->sandbox->project_id, .key_id = "-", .others = s->tokens};
}

int vercel_open_terminal(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct sandbox *native;
	struct json_writer *w;
	struct reply reply;
	struct vercel_session *s;
	struct key_tokens tokens;
	char url[HTTP_HOST_SIZE + 128];
	const char *rest;
	int r = find_running(req, &s, &native, err);

	if (r != 0)
		return r;
	rest = strstr(api->preview_url, "://");
	if (!rest)
		return err_set(err, ERR_UNAVAILABLE, 0, "the daemon listens on no TCP address");
	tokens = tokens_of(s);
	if (!key_tokens_of(&tokens, http_user(req))) {
		json_t *more = key_tokens_add(&tokens, api->keyring, http_user(req));

		json_decref(s->tokens);
		s->tokens = more;
		tokens = tokens_of(s);
	}
	(void)snprintf(url, sizeof(url), "%s%s" PATH_START "%s",
	               strncmp(api->preview_url, "https", 5) == 0 ? "wss" : "ws", rest, s->id);
	w = reply_begin(&reply);
	json_put_str(w, "url", url);
	json_put_str(w, "token", key_tokens_of(&tokens, http_user(req)));
	return reply_send(&reply, req, 200, err);
}

static void end(struct terminal *t, unsigned code, const char *reason)
{
	t->is_over = true;
	ws_close(t->ws, code, reason);
}

static void send_exit(struct terminal *t)
{
	struct exec_facts f;
	char text[64];
	int len;

	exec_look(t->e, &f);
	len = snprintf(text, sizeof(text), "{\"type\":\"exit\",\"code\":%u}",
	               f.exit_signal ? 128 + f.exit_signal : f.exit_code);
	if (ws_send(t->ws, WS_TEXT, text, (size_t)len) == 0)
		end(t, CLOSE_NORMAL, "exit");
}

/* Shows in the terminal why nothing runs. */
static void send_failure(struct terminal *t, const char *message)
{
	static const char exit[] = "{\"type\":\"exit\",\"code\":127}";
	char text[512];
	int len = snprintf(text, sizeof(text), "%s\r\n", message);

	if (ws_send(t->ws, WS_BINARY, text, MIN((size_t)len, sizeof(text) - 1)) == 0 &&
	    ws_send(t->ws, WS_TEXT, exit, sizeof(exit) - 1) == 0)
		end(t, CLOSE_NORMAL, "exit");
}

/* 1: more may follow, 0: not now. */
static int send_next(struct terminal *t)
{
	struct spool_event event;
	struct err err;
	int r = spool_next(exec_spool(t->e), t->seq, &event, &err);

	if (r < 0) {
		send_failure(t, err.message);
		return 0;
	}
	if (r == 0 && exec_state(t->e) == EXEC_FAILED)
		send_failure(t, exec_failure(t->e)->message);
	else if (r == 0 && exec_is_over(t->e))
		send_exit(t);
	if (r == 0)
		return 0;
	t->seq = event.seq;
	if (event.kind != SPOOL_GAP && ws_send(t->ws, WS_BINARY, event.data, event.len) < 0)
		return 0;
	return 1;
}

static void pump_output(struct terminal *t)
{
	for (unsigned n = 0; reader_may_go_on(t->loop, n); n++) {
		if (t->is_over || ws_pending(t->ws) >= HTTP_HIGH_WATER)
			return; /* on_drain goes on */
		if (!t->e) {
			end(t, CLOSE_NORMAL, "the sandbox has stopped");
			return;
		}
		if (send_next(t) == 0)
			return;
	}
	loop_job_start(t->again);
}

static void pump_input(struct terminal *t)
{
	while (t->held.len > 0) {
		ssize_t n = t->e ? exec_write_stdin(t->e, t->held.data, t->held.len, NULL) : -ESRCH;

		if (n == 0)
			return;
		buf_consume(&t->held, n < 0 ? t->held.len : (size_t)n);
	}
	ws_pause(t->ws, false);
}

static void on_watch(struct exec *e, void *arg)
{
	struct terminal *t = arg;

	t->e = e;
	if (t->held.len > 0)
		pump_input(t);
	pump_output(t);
}

static bool on_again(struct loop *loop, void *arg)
{
	(void)loop;
	pump_output(arg);
	return true;
}

/* ["K=V", …] as an object. */
static json_t *read_env(const json_t *list)
{
	json_t *env = json_object();

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));
		const char *equals = word ? strchr(word, '=') : NULL;
		auto_free char *name =
			equals ? xasprintf("%.*s", (int)(equals - word), word) : NULL;

		if (name)
			(void)json_object_set_new(env, name, json_string(equals + 1));
	}
	return env;
}

static uint16_t size_or(uint64_t given, uint16_t usual)
{
	return given > 0 && given <= TERMINAL_MAX ? (uint16_t)given : usual;
}

struct message {
	const char *type, *command, *cwd;
	json_t *args, *env;
	uint64_t rows, cols;
};

static int start(struct terminal *t, const struct message *m, struct err *err)
{
	auto_json json_t *argv = json_array(), *env = read_env(m->env);
	struct exec_spec spec = {.argv = argv,
	                         .env = env,
	                         .cwd = m->cwd && m->cwd[0] ? m->cwd : VERCEL_HOME,
	                         .has_stdin = true,
	                         .has_pty = true,
	                         .rows = size_or(m->rows, ROWS),
	                         .cols = size_or(m->cols, COLS)};
	struct sandbox *native;
	struct vercel_session *s;
	int r;

	HASH_FIND_STR(t->vercel->sessions, t->session_id, s);
	native = s ? vercel_session_sandbox(s) : NULL;
	if (!native)
		return err_set(err, ERR_GONE, 0, "the sandbox has stopped");
	(void)json_array_append_new(argv, json_string(m->command ? m->command : "sh"));
	if (json_is_array(m->args))
		(void)json_array_extend(argv, m->args);
	r = body_check_strings(argv, "args", ARGV_BYTES_MAX, err);
	if (r == 0)
		r = body_check_env(env, "env", err);
	if (r == 0)
		r = exec_start(native, &spec, &t->e, err);
	if (r < 0)
		return r;
	t->has_begun = true;
	exec_watch_add(t->e, &t->watch);
	return 0;
}

static int control(struct terminal *t, const char *data, size_t len, struct err *err)
{
	auto_json json_t *object = NULL;
	struct message m = {0};
	const struct json_field fields[] = {
		{"type", JSON_FIELD_STRING, &m.type, true},
		{"command", JSON_FIELD_STRING, &m.command, .min = 1},
		{"cwd", JSON_FIELD_STRING, &m.cwd, .max = CONTROL_MAX},
		{"args", JSON_FIELD_ARRAY, &m.args},
		{"env", JSON_FIELD_ARRAY, &m.env},
		{"rows", JSON_FIELD_U64, &m.rows, .max = UINT32_MAX},
		{"cols", JSON_FIELD_U64, &m.cols, .max = UINT32_MAX},
	};
	int r = json_parse_up_to(data, len, JSON_REQUEST_VALUES_MAX, &object, err);

	if (r == 0)
		r = body_read(object, "", fields, ARRAY_SIZE(fields), err);
	if (r < 0)
		return r;
	if (strcmp(m.type, "start") == 0 && !t->has_begun)
		return start(t, &m, err);
	if (strcmp(m.type, "resize") == 0 && t->e && !exec_is_over(t->e))
		return exec_resize(t->e, size_or(m.rows, ROWS), size_or(m.cols, COLS), err);
	return 0;
}

static void on_message(struct http_ws *ws, enum ws_opcode op, const char *data, size_t len,
                       void *arg)
{
	struct terminal *t = arg;
	struct err err;

	if (t->is_over)
		return;
	if (op == WS_TEXT) {
		if (control(t, data, len, &err) < 0 && !t->has_begun)
			send_failure(t, err.message);
		return;
	}
	if (buf_append(&t->held, data, len) < 0) {
		end(t, CLOSE_POLICY, "input came faster than it was held back");
		return;
	}
	ws_pause(ws, true);
	pump_input(t);
}

static void on_drain(struct http_ws *ws, void *arg)
{
	struct terminal *t = arg;

	(void)ws;
	if (t->has_begun)
		pump_output(t);
}

/* Closing the terminal kills what runs in it. */
static void on_close(struct http_ws *ws, void *arg)
{
	struct terminal *t = arg;

	(void)ws;
	exec_watch_remove(&t->watch);
	if (t->e && !exec_is_over(t->e))
		exec_kill(t->e);
	loop_job_free(t->again);
	buf_done(&t->held);
	free(t);
}

static int accept_terminal(struct http_req *req, const struct vercel_session *s, struct err *err)
{
	static const struct http_ws_ops ops = {
		.on_message = on_message, .on_drain = on_drain, .on_close = on_close};
	struct terminal *t = xnew0(struct terminal);
	int r;

	*t = (struct terminal){.vercel = s->sandbox->vercel,
	                       .watch = {.fn = on_watch, .arg = t},
	                       .held = BUF_INIT(2 * WS_MESSAGE_MAX)};
	list_init(&t->watch.link);
	memcpy(t->session_id, s->id, sizeof(t->session_id));
	r = ws_accept(req, &ops, t, &t->ws, err);
	if (r < 0) {
		free(t);
		return r;
	}
	t->loop = http_loop(req);
	t->again = loop_job_new(t->loop, on_again, t);
	return 0;
}

/* "/vercel/terminal/ID?token=TOKEN": the session, if the token is its own and it runs. */
static struct vercel_session *find_by_token(const struct vercel *v, const char *rest,
                                            const struct key **ret_key)
{
	static const char name[] = "?token=";
	size_t id_len = strcspn(rest, "?");
	const char *token = rest + id_len;
	char id[ID_SIZE];
	struct key_tokens tokens;
	struct vercel_session *s;

	if (id_len >= sizeof(id) || strncmp(token, name, strlen(name)) != 0)
		return NULL;
	(void)snprintf(id, sizeof(id), "%.*s", (int)id_len, rest);
	token += strlen(name);
	HASH_FIND_STR(v->sessions, id, s);
	if (!s)
		return NULL;
	tokens = tokens_of(s);
	*ret_key = key_tokens_find(&tokens, v->api->keyring, key_token_is, token);
	return *ret_key && vercel_session_sandbox(s) ? s : NULL;
}

int terminal_divert(struct http_req *req, struct err *err)
{
	const char *target = http_req_head(req)->target;
	const struct vercel_session *s;
	const struct key *key;
	int r;

	if (strncmp(target, PATH_START, strlen(PATH_START)) != 0)
		return 0;
	r = http_check_host(req, err);
	if (r < 0)
		return r;
	s = find_by_token(vercel_of(req), target + strlen(PATH_START), &key);
	if (!s) {
		vercel_refuse(req, 401, "unauthorized", "The token is not this session's.");
		return 1;
	}
	api_let_in(req, key);
	r = accept_terminal(req, s, err);
	return r < 0 ? r : 1;
}
