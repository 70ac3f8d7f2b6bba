// SPDX-License-Identifier: Apache-2.0
/*
 * A process as a stream of envelopes: start with its pid, data, end. It is an exec, which goes on
 * when its client leaves; a client that connects later sees what comes from then on. Its output is
 * read from the spool as fast as the client takes it.
 *
 * If the sandbox ends, the connection is cut: clients take a stream without an end as a process
 * that was killed with its sandbox.
 */
#include "compat/e2b/envd/process.h"

#include "api/execs/exec_reader.h"
#include "api/frame/body.h"
#include "compat/e2b/envd/rpc.h"
#include "compat/e2b/frame/body.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define EVENT_BYTES_MAX (2 * 1024 * 1024)
#define CHUNK_MAX       (32 * 1024)

struct stream {
	struct exec_reader reader;
	uint64_t seq;
	bool has_begun, is_quiet;
	uint64_t keepalive_us;
	struct loop_timer *keepalive;
	struct loop_timer *deadline; /* of a connection to a running process; or NULL */
	struct buf json;
};

static struct json_writer message_begin(struct stream *st, const char *kind)
{
	struct json_writer w;

	buf_truncate(&st->json, 0);
	json_writer_init(&w, &st->json);
	json_open_object(&w, NULL);
	json_open_object(&w, "event");
	json_open_object(&w, kind);
	return w;
}

/* < 0: the client is gone. */
static int message_send(struct stream *st, struct json_writer *w)
{
	int r;

	json_close_object(w);
	json_close_object(w);
	json_close_object(w);
	r = json_writer_end(w);
	if (r == 0)
		r = rpc_send(st->reader.req, &st->json);
	if (r < 0) {
		st->reader.is_ended = true;
		http_stream_abort(st->reader.req);
	}
	st->is_quiet = false;
	return r;
}

static int send_start(struct stream *st)
{
	struct json_writer w = message_begin(st, "start");

	json_put_u64(&w, "pid", exec_pid(st->reader.e));
	return message_send(st, &w);
}

static int send_data(struct stream *st, const struct spool_event *event)
{
	const char *name = event->kind == SPOOL_STDERR ? "stderr" : "stdout";

	if (exec_has_pty(st->reader.e))
		name = "pty";
	for (size_t at = 0; at < event->len;) {
		size_t n = MIN(event->len - at, (size_t)CHUNK_MAX);
		struct json_writer w = message_begin(st, "data");
		int r;

		json_put_base64(&w, name, event->data + at, n);
		r = message_send(st, &w);
		if (r < 0)
			return r;
		at += n;
	}
	return 0;
}

/* As in Go's os.ProcessState. */
static void end_status(const struct channel_exit *x, char *ret, size_t size)
{
	static const struct {
		int signo;
		const char *text;
	} words[] = {
		{SIGHUP, "hangup"},
		{SIGINT, "interrupt"},
		{SIGQUIT, "quit"},
		{SIGILL, "illegal instruction"},
		{SIGTRAP, "trace/breakpoint trap"},
		{SIGABRT, "aborted"},
		{SIGBUS, "bus error"},
		{SIGFPE, "floating point exception"},
		{SIGKILL, "killed"},
		{SIGUSR1, "user defined signal 1"},
		{SIGSEGV, "segmentation fault"},
		{SIGUSR2, "user defined signal 2"},
		{SIGPIPE, "broken pipe"},
		{SIGALRM, "alarm clock"},
		{SIGTERM, "terminated"},
	};

	if (x->how == EXIT_CODE) {
		(void)snprintf(ret, size, "exit status %u", x->value);
		return;
	}
	(void)snprintf(ret, size, "signal: signal %u", x->value);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if ((uint32_t)words[i].signo == x->value)
			(void)snprintf(ret, size, "signal: %s", words[i].text);
}

static int send_end(struct stream *st)
{
	const struct channel_exit *x = exec_exit(st->reader.e);
	struct json_writer w = message_begin(st, "end");
	char status[48];

	end_status(x, status, sizeof(status));
	if (x->how == EXIT_SIGNAL)
		json_put_i64(&w, "exitCode", -1);
	else if (x->value != 0)
		json_put_u64(&w, "exitCode", x->value);
	if (x->how == EXIT_CODE)
		json_put_bool(&w, "exited", true);
	json_put_str(&w, "status", status);
	if (x->how == EXIT_SIGNAL || x->value != 0)
		json_put_str(&w, "error", status);
	return message_send(st, &w);
}

static void end_stream(struct stream *st, const char *code, const char *message)
{
	st->reader.is_ended = true;
	rpc_end_with(st->reader.req, code, message);
}

static void abort_stream(struct stream *st)
{
	st->reader.is_ended = true;
	http_stream_abort(st->reader.req);
}

/* It is over, and its output was sent. */
static void finish(struct stream *st)
{
	const struct exec *e = st->reader.e;

	if (exec_exit(e)->how != EXIT_CODE && exec_exit(e)->how != EXIT_SIGNAL)
		abort_stream(st);
	else if (exec_cause(e) == END_TIMEOUT)
		end_stream(st, "deadline_exceeded", "the command's time was up");
	else if (send_end(st) >= 0)
		end_stream(st, NULL, "");
}

/* The process never ran: for E2B an unknown user is "unauthenticated", all else an invalid
 * argument. */
static void fail(struct stream *st, const struct err *err)
{
	end_stream(st, e2b_is_unknown_user(err) ? "unauthenticated" : "invalid_argument",
	           err->message);
}

/* 1: go on, 0: not yet, < 0: ended. */
static int begin(struct stream *st)
{
	struct exec_reader *reader = &st->reader;

	if (st->has_begun)
		return 1;
	if (exec_state(reader->e) == EXEC_STARTING)
		return 0;
	if (exec_state(reader->e) == EXEC_FAILED) {
		fail(st, exec_failure(reader->e));
		return -ECANCELED;
	}
	st->has_begun = true;
	return send_start(st) < 0 ? -EPIPE : 1;
}

static void pump(struct exec_reader *reader)
{
	struct stream *st = container_of(reader, struct stream, reader);
	struct spool_event event;
	struct err err;

	if (!reader->e) {
		abort_stream(st);
		return;
	}
	if (begin(st) <= 0)
		return;
	for (unsigned n = 0; reader_may_go_on(http_loop(reader->req), n); n++) {
		int r;

		if (http_stream_pending(reader->req) >= HTTP_HIGH_WATER)
			return; /* on_drain goes on */
		r = spool_next(exec_spool(reader->e), st->seq, &event, &err);
		if (r < 0) {
			end_stream(st, "internal", err.message);
			return;
		}
		if (r == 0) {
			if (exec_is_over(reader->e))
				finish(st);
			return;
		}
		st->seq = event.seq;
		if (event.kind != SPOOL_GAP && send_data(st, &event) < 0)
			return;
	}
	exec_reader_again(reader);
}

static void on_keepalive(struct loop *loop, void *arg)
{
	struct stream *st = arg;
	bool was_quiet = st->is_quiet;

	(void)loop;
	st->is_quiet = true;
	loop_timer_set_in(st->keepalive, st->keepalive_us / 2);
	if (was_quiet && st->has_begun && !st->reader.is_ended) {
		struct json_writer w = message_begin(st, "keepalive");

		(void)!message_send(st, &w);
	}
}

static void on_deadline(struct loop *loop, void *arg)
{
	struct stream *st = arg;

	(void)loop;
	if (!st->reader.is_ended)
		end_stream(st, "deadline_exceeded", "the stream's time was up");
}

static void done(struct exec_reader *r)
{
	struct stream *st = container_of(r, struct stream, reader);

	loop_timer_free(st->keepalive);
	loop_timer_free(st->deadline);
	buf_done(&st->json);
}

static const struct exec_reader_ops ops = {.pump = pump, .done = done};

static struct stream *stream_new(struct http_req *req, struct exec *e, uint64_t after)
{
	struct stream *st = xnew0(struct stream);

	st->seq = after;
	buf_init(&st->json, EVENT_BYTES_MAX);
	st->keepalive_us = rpc_keepalive_us(req);
	st->keepalive = loop_timer_new(http_loop(req), on_keepalive, st);
	loop_timer_set_in(st->keepalive, st->keepalive_us / 2);
	exec_reader_init(&st->reader, &ops, req, e, NULL, NULL);
	return st;
}

struct wish {
	struct exec_spec spec;
	json_t *argv, *env; /* the wish's own */
};

static void wish_done(struct wish *w)
{
	json_decref(w->argv);
	json_decref(w->env);
}

static int read_words(const json_t *process, struct wish *w, struct err *err)
{
	const char *cmd = NULL;
	const json_t *args = NULL;
	int r = body_text(process, "cmd", &cmd, err);

	if (r == 0 && !cmd)
		r = err_field(err, "process.cmd", "is required");
	if (r == 0)
		r = body_array(process, "args", &args, err);
	if (r < 0)
		return r;
	w->argv = json_pack("[s]", cmd);
	if (args)
		(void)json_array_extend(w->argv, (json_t *)unconst(args));
	w->spec.argv = w->argv;
	return body_check_strings(w->argv, "process.args", ARGV_BYTES_MAX, err);
}

/* The environment variables of E2B that programs get. */
static int read_env(const json_t *process, const struct sandbox *s, struct wish *w, struct err *err)
{
	const json_t *envs = NULL;
	char id[E2B_ID_SIZE];
	int r = body_strings(process, "envs", &envs, err);

	if (r < 0)
		return r;
	e2b_id(s, id);
	w->env = json_pack("{s:s, s:s, s:s}", "E2B_SANDBOX", "true", "E2B_SANDBOX_ID", id,
	                   "E2B_TEMPLATE_ID", e2b_template(s));
	if (envs)
		(void)json_object_update(w->env, (json_t *)unconst(envs));
	w->spec.env = w->env;
	return body_check_env(w->env, "process.envs", err);
}

static int read_size(const json_t *pty, uint16_t *ret_rows, uint16_t *ret_cols, struct err *err)
{
	const json_t *size = NULL;
	int64_t rows = 24, cols = 80;
	int r = body_object(pty, "size", &size, err);

	if (r == 0)
		r = body_int(size, "rows", &rows, NULL, err);
	if (r == 0)
		r = body_int(size, "cols", &cols, NULL, err);
	if (r == 0 && (rows < 1 || rows > TERMINAL_MAX || cols < 1 || cols > TERMINAL_MAX))
		r = err_field(err, "pty.size", "must be from 1 to %d each way", TERMINAL_MAX);
	*ret_rows = (uint16_t)rows;
	*ret_cols = (uint16_t)cols;
	return r;
}

int process_read_pty(const json_t *message, bool *ret_has, uint16_t *ret_rows, uint16_t *ret_cols,
                     struct err *err)
{
	const json_t *pty = NULL;
	int r = body_object(message, "pty", &pty, err);

	*ret_has = pty != NULL;
	return r == 0 && pty ? read_size(pty, ret_rows, ret_cols, err) : r;
}

static int read_start(struct http_req *req, const json_t *message, const struct sandbox *s,
                      struct wish *w, struct err *err)
{
	const json_t *process = NULL;
	int r = body_object(message, "process", &process, err);

	w->spec.has_stdin = true;
	if (r == 0)
		r = read_words(process, w, err);
	if (r == 0)
		r = read_env(process, s, w, err);
	if (r == 0)
		r = body_text(process, "cwd", &w->spec.cwd, err);
	if (r == 0)
		r = body_bool(message, "stdin", &w->spec.has_stdin, err);
	if (r == 0)
		r = process_read_pty(message, &w->spec.has_pty, &w->spec.rows, &w->spec.cols, err);
	if (r == 0)
		r = rpc_timeout_ms(req, &w->spec.timeout_ms, err);
	w->spec.has_stdin |= w->spec.has_pty;
	if (w->spec.cwd && !w->spec.cwd[0])
		w->spec.cwd = NULL;
	return r;
}

static int start(struct http_req *req, const struct envd_caller *caller, const json_t *message,
                 struct err *err)
{
	auto_call(wish_done) struct wish w = {0};
	struct exec *e;
	int r = read_start(req, message, caller->s, &w, err);

	if (r == 0) {
		w.spec.user = caller->user[0] ? caller->user : NULL;
		r = exec_start(caller->s, &w.spec, &e, err);
	}
	if (r == 0)
		(void)stream_new(req, e, 0);
	return r;
}

int envd_start(struct http_req *req, struct err *err)
{
	(void)err;
	return rpc_take(req, start);
}

static int connect_to(struct http_req *req, const struct envd_caller *caller, const json_t *message,
                      struct err *err)
{
	struct stream *st;
	uint64_t ms;
	struct exec *e;
	int r = process_find(caller->s, message, /* is_running= */ false, &e, err);

	if (r == 0)
		r = rpc_timeout_ms(req, &ms, err);
	if (r != 0)
		return r;
	st = stream_new(req, e, spool_last_seq(exec_spool(e)));
	if (ms > 0) {
		st->deadline = loop_timer_new(http_loop(req), on_deadline, st);
		loop_timer_set_in(st->deadline, ms * 1000);
	}
	return 0;
}

int envd_connect(struct http_req *req, struct err *err)
{
	(void)err;
	return rpc_take(req, connect_to);
}
