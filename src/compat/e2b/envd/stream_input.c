// SPDX-License-Identifier: Apache-2.0
/*
 * Input as a stream of envelopes: the first names the process, each later one has bytes for it or
 * keeps the stream open. The answer comes when the stream has ended and all of it is taken.
 *
 * A client that is faster than the program is held back: the body is not read while a piece waits
 * for room. The process is looked up again for each piece, so that a token that was revoked, or a
 * sandbox that was paused in between, ends the stream.
 */
#include "compat/e2b/envd/process.h"
#include "compat/e2b/envd/rpc.h"
#include "compat/e2b/frame/body.h"
#include "sandbox/exec/exec_feed.h"

struct input_stream {
	struct http_req *req;
	struct buf in;
	json_t *start;          /* the message that named the process, or NULL */
	struct exec_feed *feed; /* the piece that waits for room, or NULL */
	bool is_whole;          /* the body's end was seen */
	bool is_over;           /* it is answered */
};

static void go_on(struct input_stream *st);

static void end(struct input_stream *st, const struct err *err)
{
	st->is_over = true;
	rpc_end(st->req, err);
}

static void on_fed(const struct err *err, void *arg)
{
	struct input_stream *st = arg;

	st->feed = NULL;
	if (err)
		end(st, err);
	else
		go_on(st);
	if (!st->feed)
		http_body_pause(st->req, false);
}

static int find(struct input_stream *st, struct exec **ret, struct err *err)
{
	struct envd_caller caller;
	int r = envd_find_again(st->req, &caller, err);

	st->is_over |= r > 0; /* there is no such sandbox, and that is answered */
	return r != 0 ? r : process_find(caller.s, st->start, /* is_running= */ true, ret, err);
}

static int take_data(struct input_stream *st, const json_t *data, struct err *err)
{
	char *bytes = NULL;
	struct exec *e;
	size_t len;
	int r;

	if (!st->start)
		return err_field(err, "start", "must come before data");
	r = find(st, &e, err);
	if (r == 0)
		r = process_read_input(data, e, &bytes, &len, err);
	if (r != 0)
		return r;
	http_body_pause(st->req, true);
	st->feed = exec_feed(e, bytes, len, /* closes= */ false, on_fed, st);
	return 0;
}

static int take_start(struct input_stream *st, const json_t *start, struct err *err)
{
	struct exec *e;

	if (st->start)
		return err_field(err, "start", "must come once");
	st->start = json_deep_copy(start);
	return find(st, &e, err);
}

static int take_message(struct input_stream *st, const json_t *message, struct err *err)
{
	const json_t *start = NULL, *data = NULL, *keepalive = NULL;
	int r = body_object(message, "start", &start, err);

	if (r == 0)
		r = body_object(message, "data", &data, err);
	if (r == 0)
		r = body_object(message, "keepalive", &keepalive, err);
	if (r < 0)
		return r;
	if (!!start + !!data + !!keepalive != 1)
		return err_set(err, ERR_BAD_REQUEST, 0,
		               "a message must have exactly one of start, data and keepalive");
	if (start)
		return take_start(st, start, err);
	return data ? take_data(st, data, err) : 0;
}

/* 1: a message was taken, 0: there is no whole one. */
static int take_next(struct input_stream *st, struct err *err)
{
	auto_json json_t *message = NULL;
	size_t size = 0;
	int r = rpc_envelope_next(buf_str(&st->in), st->in.len, &message, &size, err);

	if (r <= 0)
		return r;
	buf_consume(&st->in, size);
	r = take_message(st, message, err);
	return r < 0 ? r : 1;
}

static void finish(struct input_stream *st)
{
	auto_call(buf_done) struct buf empty = BUF_INIT(8);
	struct err err;

	if (st->in.len > 0 || !st->start) {
		(void)err_set(&err, ERR_BAD_REQUEST, 0,
		              st->start ? "the envelope is not whole" : "start is missing");
		end(st, &err);
		return;
	}
	st->is_over = true;
	if (buf_append(&empty, "{}", 2) < 0 || rpc_send(st->req, &empty) < 0)
		http_stream_abort(st->req);
	else
		rpc_end(st->req, NULL);
}

static void go_on(struct input_stream *st)
{
	struct err err = {0};
	int r = 1;

	while (r > 0 && !st->feed && !st->is_over)
		r = take_next(st, &err);
	if (st->is_over || st->feed)
		return;
	if (r < 0)
		end(st, &err);
	else if (st->is_whole)
		finish(st);
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct input_stream *st = arg;
	struct err err;

	(void)req;
	if (st->is_over)
		return;
	st->is_whole = !data;
	if (data && buf_append(&st->in, data, len) < 0) {
		(void)err_set(&err, ERR_TOO_LARGE, 0, "the message is too large");
		end(st, &err);
		return;
	}
	go_on(st);
}

static void on_done(void *arg)
{
	struct input_stream *st = arg;

	if (st->feed)
		exec_feed_cancel(st->feed);
	json_decref(st->start);
	buf_done(&st->in);
	free(st);
}

int envd_stream_input(struct http_req *req, struct err *err)
{
	struct input_stream *st;

	(void)err;
	if (rpc_admit(req) != 0)
		return 1;
	st = xnew0(struct input_stream);
	*st = (struct input_stream){.req = req,
	                            .in = BUF_INIT(2 * (RPC_MESSAGE_MAX + RPC_ENVELOPE_HEAD))};
	http_on_done(req, on_done, st);
	http_body_may_rest(req); /* people type into it; clients send a keepalive each 50 s */
	http_on_body(req, on_body, st);
	return 0;
}
