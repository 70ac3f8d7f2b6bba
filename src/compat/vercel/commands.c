// SPDX-License-Identifier: Apache-2.0
/*
 * Commands are execs. A command that cannot be run gets a 400, so the answer waits until it is
 * known whether it runs.
 */
#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"

#include "compat/vercel/commands.h"
#include "compat/vercel/handlers.h"
#include "compat/vercel/wire.h"

#include <stdio.h>
#include <string.h>

#define COMMAND_MAX (2 * 1024 * 1024) /* all its words, escaped */
#define TIMEOUT_MIN 1

struct command_body {
	json_t *argv, *env; /* owned */
	char *cwd;
	const char *user;
	uint64_t timeout_ms;
	bool waits, has_stdin;
};

static void command_body_done(struct command_body *body)
{
	json_decref(body->argv);
	json_decref(body->env);
	free(body->cwd);
}

/* Makes a path absolute, relative to the sessions' directory. */
static char *absolute(const char *path)
{
	return path[0] == '/' ? xstrdup(path) : xasprintf(VERCEL_HOME "/%s", path);
}

static int read_words(const char *command, const json_t *args, struct command_body *ret,
                      struct err *err)
{
	ret->argv = json_pack("[s]", command);
	if (args && json_array_extend(ret->argv, unconst(args)) < 0)
		return err_set(err, ERR_INTERNAL, ENOMEM, "no memory for the command");
	return body_check_strings(ret->argv, "args", ARGV_BYTES_MAX, err);
}

static int read_command(const json_t *body, const struct sandbox *native, struct command_body *ret,
                        struct err *err)
{
	const char *command = NULL, *cwd = VERCEL_HOME;
	json_t *args = NULL, *env = NULL;
	bool is_sudo = false;
	const struct json_field fields[] = {
		{"command", JSON_FIELD_STRING, &command, true, .min = 1, .max = ARGV_BYTES_MAX},
		{"args", JSON_FIELD_ARRAY, &args, .max = 65536},
		{"env", JSON_FIELD_OBJECT, &env},
		{"sudo", JSON_FIELD_BOOL, &is_sudo},
		{"cwd", JSON_FIELD_STRING, &cwd, .max = 4096},
		{"timeout", JSON_FIELD_U64, &ret->timeout_ms, .min = TIMEOUT_MIN,
	         .max = TIMEOUT_MS_MAX},
		{"wait", JSON_FIELD_BOOL, &ret->waits},
		{"attachStdin", JSON_FIELD_BOOL, &ret->has_stdin},
	};
	int r = body ? body_read(body, "", fields, ARRAY_SIZE(fields), err)
	             : err_field(err, "command", "is missing");

	if (r == 0)
		r = read_words(command, args, ret, err);
	if (r == 0 && env)
		r = body_check_env(env, "env", err);
	if (r < 0)
		return r;
	ret->env = env ? json_copy(env) : json_object();
	ret->cwd = absolute(cwd);
	if (is_sudo) {
		ret->user = "root";
		(void)json_object_set_new(ret->env, "SUDO_USER",
		                          json_string(vercel_user_of(native)));
	}
	return 0;
}

/* A reply that is sent once the command runs, or once it is over. */
struct answer {
	struct http_req *req;
	struct exec *e; /* NULL: removed */
	struct exec_watch watch;
	char session_id[ID_SIZE];
	bool awaits_end, is_begun, is_answered;
};

static void send_command(struct answer *a)
{
	auto_call(buf_done) struct buf body = BUF_INIT(COMMAND_MAX);
	struct json_writer w;

	json_writer_init(&w, &body);
	json_open_object(&w, NULL);
	put_command(&w, "command", a->e, a->session_id, /* is_first= */ false);
	json_close_object(&w);
	if (json_writer_end(&w) < 0 ||
	    (a->is_begun && http_stream_write(a->req, body.data, body.len) < 0))
		http_stream_abort(a->req);
	else if (a->is_begun)
		http_stream_end(a->req);
	else
		http_reply_json(a->req, 200, &body);
}

static void answer(struct answer *a)
{
	struct err err;

	if (a->is_answered)
		return;
	if (!a->e) {
		a->is_answered = true;
		(void)err_set(&err, ERR_GONE, 0, "the sandbox has stopped");
		if (a->is_begun)
			http_stream_abort(a->req);
		else
			http_reply_err(a->req, &err);
		return;
	}
	if (exec_state(a->e) == EXEC_STARTING)
		return;
	if (exec_state(a->e) == EXEC_FAILED && !a->is_begun) {
		a->is_answered = true;
		command_refuse(a->req, exec_failure(a->e));
		return;
	}
	if (a->awaits_end && !exec_is_over(a->e)) {
		/* Vercel's client gives up if the head is late, but waits for a body. */
		if (!a->is_begun)
			http_stream_start(a->req, 200, "application/json", -1);
		a->is_begun = true;
		return;
	}
	a->is_answered = true;
	send_command(a);
}

static void on_watch(struct exec *e, void *arg)
{
	struct answer *a = arg;

	a->e = e;
	answer(a);
}

static void on_done(void *arg)
{
	struct answer *a = arg;

	exec_watch_remove(&a->watch);
	free(a);
}

static void answer_later(struct http_req *req, struct exec *e, const struct vercel_session *s,
                         bool awaits_end)
{
	struct answer *a = xnew0(struct answer);

	*a = (struct answer){
		.req = req, .e = e, .watch = {.fn = on_watch, .arg = a}, .awaits_end = awaits_end};
	memcpy(a->session_id, s->id, sizeof(a->session_id));
	exec_watch_add(e, &a->watch);
	http_on_done(req, on_done, a);
	answer(a);
}

/* Vercel's client for Python tells it apart by its code. */
static bool is_program_missing(const struct err *err)
{
	return err->errnum == ENOENT && strncmp(err->message, "argv[0]:", strlen("argv[0]:")) == 0;
}

void command_refuse(struct http_req *req, const struct err *err)
{
	int status = err_code_status(err->code);

	/* The session ended first: Vercel's client resumes the sandbox and asks again. */
	if (err->code == ERR_GONE) {
		vercel_fail(req, err);
		return;
	}
	vercel_refuse(req, status >= 400 && status < 500 ? 400 : status,
	              is_program_missing(err) ? "executable_not_found" : "bad_request",
	              err->message);
}

int vercel_run_command(struct http_req *req, struct err *err)
{
	auto_call(command_body_done) struct command_body body = {0};
	struct exec_spec spec = {0};
	struct sandbox *native;
	struct vercel_session *s;
	struct exec *e;
	int r = find_running(req, &s, &native, err);

	if (r == 0)
		r = read_command(http_json(req), native, &body, err);
	if (r != 0)
		return r;
	spec.argv = body.argv;
	spec.env = body.env;
	spec.cwd = body.cwd;
	spec.user = body.user;
	spec.timeout_ms = body.timeout_ms;
	spec.has_stdin = body.has_stdin;
	r = exec_start(native, &spec, &e, err);
	if (r < 0)
		return r;
	if (body.waits)
		command_stream(req, e, s->id, /* tells_command= */ true);
	else
		answer_later(req, e, s, /* awaits_end= */ false);
	return 0;
}

int vercel_get_command(struct http_req *req, struct err *err)
{
	const char *wait = http_query(req, "wait");
	struct vercel_session *s;
	struct exec *e;
	int r = find_command(req, &s, &e, err);

	if (r == 0)
		answer_later(req, e, s, wait && strcmp(wait, "true") == 0);
	return r;
}

int vercel_kill_command(struct http_req *req, struct err *err)
{
	json_t *signal = NULL;
	const struct json_field fields[] = {{"signal", JSON_FIELD_ANY, &signal}};
	struct vercel_session *s;
	struct exec *e;
	int signo = 15;
	int r = find_command(req, &s, &e, err);

	if (r != 0)
		return r;
	r = body_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);
	if (r == 0 && signal)
		r = body_signal_value(signal, "signal", &signo, err);
	if (r == 0 && !exec_is_over(e))
		r = exec_signal(e, signo, /* whole_tree= */ true, err);
	if (r == 0)
		answer_later(req, e, s, /* awaits_end= */ false);
	return r;
}

struct list_of {
	struct json_writer *w;
	const char *session_id;
};

static void put_one(struct exec *e, void *arg)
{
	const struct list_of *of = arg;

	put_command(of->w, NULL, e, of->session_id, /* is_first= */ false);
}

int vercel_list_commands(struct http_req *req, struct err *err)
{
	struct sandbox *native;
	struct list_of of;
	struct reply reply;
	struct vercel_session *s;
	int r = find_running(req, &s, &native, err);

	if (r != 0)
		return r;
	of = (struct list_of){.w = reply_begin(&reply), .session_id = s->id};
	json_open_array(of.w, "commands");
	exec_each(native, put_one, &of);
	json_close_array(of.w);
	return reply_send(&reply, req, 200, err);
}
