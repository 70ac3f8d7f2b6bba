// SPDX-License-Identifier: Apache-2.0
/*
 * A terminal's line: a WebSocket between a client and an exec. Binary messages are stdin one way
 * and output the other; text messages are JSON: {"resize": …}, {"eof": true}, {"signal": …} in;
 * {"gap": …}, {"exited": …}, {"error": …} out.
 *
 * Both ways are held back by the slower side: while stdin has no room the client is not read, and
 * output is pulled from the spool only while the client takes it. A client that leaves kills
 * nothing and can come back with `after`. What it sent before it left is still written, however it
 * left: it may not know how far that had come.
 */
#include "api/execs/exec_reader.h"
#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#include "base/id.h"
#include "base/log.h"
#include "http/websocket.h"

#include <stdio.h>

#define CONTROL_BYTES_MAX (2 * 1024 * 1024) /* an exec with all its words, escaped */

enum { CLOSE_NORMAL = 1000, CLOSE_POLICY = 1008, CLOSE_INTERNAL = 1011 };

struct attach {
	struct http_ws *ws;
	struct exec *e; /* NULL: removed */
	struct exec_watch watch;
	struct loop *loop;
	struct loop_job *again;
	uint64_t seq;
	struct buf held; /* stdin that had no room yet */
	char request_id[ID_SIZE];
	bool told_closed; /* that the program has closed its stdin */
	bool is_over;     /* the last message is sent */
};

/* Sends one text message {NAME: …}, with what put() writes. */
static void send_control(struct attach *a, const char *name,
                         void (*put)(struct json_writer *w, const char *name, const void *arg,
                                     const struct attach *a),
                         const void *arg)
{
	struct buf json = BUF_INIT(CONTROL_BYTES_MAX);
	struct json_writer w;

	json_writer_init(&w, &json);
	json_open_object(&w, NULL);
	put(&w, name, arg, a);
	json_close_object(&w);
	if (json_writer_end(&w) < 0 || ws_send(a->ws, WS_TEXT, json.data, json.len) < 0)
		a->is_over = true; /* a lost client is told by on_close */
	buf_done(&json);
}

static void put_exec(struct json_writer *w, const char *name, const void *arg,
                     const struct attach *a)
{
	(void)a;
	exec_to_json(arg, w, name);
}

static void put_err(struct json_writer *w, const char *name, const void *arg,
                    const struct attach *a)
{
	json_put_err(w, name, arg, a->request_id);
}

static void put_gap(struct json_writer *w, const char *name, const void *arg,
                    const struct attach *a)
{
	const struct spool_event *gap = arg;

	(void)a;
	json_open_object(w, name);
	json_put_u64(w, "seq", gap->seq);
	json_put_u64(w, "lost_bytes", gap->lost_bytes);
	json_put_u64(w, "lost_events", gap->lost_events);
	json_close_object(w);
}

static void end_with_error(struct attach *a, const struct err *err, unsigned code)
{
	if (a->is_over)
		return;
	a->is_over = true;
	send_control(a, "error", put_err, err);
	ws_close(a->ws, code, err_code_name(err->code));
}

static void end_gone(struct attach *a)
{
	struct err err;

	(void)exec_reader_gone(&err);
	end_with_error(a, &err, CLOSE_NORMAL);
}

/* 1: one event went out, 0: there is none, < 0: ended. */
static int send_next(struct attach *a)
{
	struct spool_event event;
	struct err err;
	int r = spool_next(exec_spool(a->e), a->seq, &event, &err);

	if (r < 0) {
		end_with_error(a, &err, CLOSE_INTERNAL);
		return r;
	}
	if (r == 0)
		return 0;
	a->seq = event.seq;
	if (event.kind == SPOOL_GAP)
		send_control(a, "gap", put_gap, &event);
	else if (ws_send(a->ws, WS_BINARY, event.data, event.len) < 0)
		return -EPIPE;
	return 1;
}

static void pump_output(struct attach *a)
{
	for (unsigned n = 0; reader_may_go_on(a->loop, n); n++) {
		int r;

		if (a->is_over || ws_pending(a->ws) >= HTTP_HIGH_WATER)
			return; /* on_drain goes on */
		if (!a->e) {
			end_gone(a);
			return;
		}
		r = send_next(a);
		if (r < 0)
			return;
		if (r == 0 && exec_is_over(a->e)) {
			a->is_over = true;
			send_control(a, "exited", put_exec, a->e);
			ws_close(a->ws, CLOSE_NORMAL, "exited");
		}
		if (r == 0)
			return;
	}
	loop_job_start(a->again);
}

/* Says once that the program reads no more. It goes on, so the client stays. */
static void tell_closed(struct attach *a, const struct err *err)
{
	if (!a->told_closed)
		send_control(a, "error", put_err, err);
	a->told_closed = true;
}

/* Input for an exec that has ended is dropped: its end tells the client enough. */
static void pump_input(struct attach *a)
{
	const size_t before = a->held.len;
	struct err err;

	while (a->held.len > 0) {
		ssize_t n = -ESRCH;

		if (a->e)
			n = exec_write_stdin(a->e, a->held.data, a->held.len, &err);
		if (n == 0)
			break;
		if (n < 0 && a->e && exec_has_closed_stdin(a->e))
			tell_closed(a, &err);
		buf_consume(&a->held, n < 0 ? a->held.len : (size_t)n);
	}
	if (a->held.len == 0 || a->held.len < before)
		ws_pause(a->ws, a->held.len > 0);
}

static void on_watch(struct exec *e, void *arg)
{
	struct attach *a = arg;

	a->e = e;
	if (a->held.len > 0)
		pump_input(a);
	pump_output(a);
}

static bool on_again(struct loop *loop, void *arg)
{
	(void)loop;
	pump_output(arg);
	return true;
}

static int control_resize(struct attach *a, const json_t *size, struct err *err)
{
	uint16_t rows = 0, cols = 0;
	int r = body_read_terminal(size, "resize.", &rows, &cols, err);

	return r < 0 ? r : exec_resize(a->e, rows, cols, err);
}

static int control(struct attach *a, const char *data, size_t len, struct err *err)
{
	auto_json json_t *message = NULL;
	json_t *resize = NULL, *signal = NULL;
	bool eof = false;
	const struct json_field fields[] = {
		{"resize", JSON_FIELD_OBJECT, &resize},
		{"eof", JSON_FIELD_BOOL, &eof},
		{"signal", JSON_FIELD_ANY, &signal},
	};
	int signo;
	int r = json_parse_up_to(data, len, JSON_REQUEST_VALUES_MAX, &message, err);

	if (r == 0)
		r = json_read(message, "", fields, ARRAY_SIZE(fields), err);
	if (r == 0 && !!resize + !!signal + eof != 1)
		r = err_set(err, ERR_BAD_REQUEST, 0,
		            "a message must have exactly one of resize, eof and signal");
	if (r < 0 || !a->e)
		return r;
	if (resize)
		return control_resize(a, resize, err);
	if (eof)
		return exec_close_stdin(a->e, err);
	r = body_signal_value(signal, "signal", &signo, err);
	return r < 0 ? r : exec_signal(a->e, signo, /* whole_tree= */ false, err);
}

static void on_message(struct http_ws *ws, enum ws_opcode op, const char *data, size_t len,
                       void *arg)
{
	struct attach *a = arg;
	struct err err;

	if (a->is_over)
		return;
	if (op == WS_TEXT) {
		int r = control(a, data, len, &err);

		if (r < 0 && (err.code == ERR_BAD_REQUEST || err.code == ERR_INVALID_FIELD))
			end_with_error(a, &err, CLOSE_POLICY);
		else if (r < 0) /* the exec would not: no reason to leave */
			send_control(a, "error", put_err, &err);
		return;
	}
	if (buf_append(&a->held, data, len) < 0) {
		(void)err_set(&err, ERR_TOO_LARGE, 0,
		              "the client sent more input than it may before the sandbox reads");
		end_with_error(a, &err, CLOSE_POLICY);
		return;
	}
	ws_pause(ws, true);
	pump_input(a);
}

static void on_drain(struct http_ws *ws, void *arg)
{
	(void)ws;
	pump_output(arg);
}

static void on_close(struct http_ws *ws, void *arg)
{
	struct attach *a = arg;

	(void)ws;
	if (a->held.len > 0 && a->e)
		log_info("exec.input_dropped", "id=%s bytes=%zu", exec_id(a->e), a->held.len);
	exec_watch_remove(&a->watch);
	loop_job_free(a->again);
	buf_done(&a->held);
	free(a);
}

int attach_exec(struct http_req *req, struct err *err)
{
	static const struct http_ws_ops ops = {
		.on_message = on_message,
		.on_drain = on_drain,
		.on_close = on_close,
		.outlasts_client = true,
	};
	struct attach *a;
	struct exec *e;
	uint64_t after = 0;
	int r = http_query_u64(req, "after", 0, INT64_MAX, &after, err);

	if (r == 0)
		r = find_exec(req, &e, err);
	if (r < 0)
		return r;
	a = xnew0(struct attach);
	*a = (struct attach){.e = e,
	                     .watch = {.fn = on_watch, .arg = a},
	                     .seq = after,
	                     .held = BUF_INIT(2 * WS_MESSAGE_MAX)};
	(void)snprintf(a->request_id, sizeof(a->request_id), "%s", http_request_id(req));
	r = ws_accept(req, &ops, a, &a->ws, err);
	if (r < 0) {
		free(a);
		return r;
	}
	a->loop = http_loop(req);
	a->again = loop_job_new(a->loop, on_again, a);
	loop_job_start(a->again);
	exec_watch_add(e, &a->watch);
	return 0;
}
