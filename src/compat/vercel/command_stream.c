// SPDX-License-Identifier: Apache-2.0
/*
 * A command's output as a stream of {"stream": "stdout", "data": …}. If the command was requested
 * too, {"command": …} comes first and last; for logs it does not.
 *
 * Vercel's client decodes each chunk from the network by itself, so it would lose a character that
 * is cut in two. So the output is ASCII, with the rest escaped. Bytes that are not text become
 * U+FFFD. If the session ends while its output is read, that is a separate record.
 */
#include "api/execs/exec_reader.h"
#include "api/frame/find.h"
#include "api/frame/text_carry.h"

#include "base/parse.h"
#include "base/units.h"
#include "compat/vercel/commands.h"
#include "compat/vercel/handlers.h"
#include "compat/vercel/wire.h"

#include <stdio.h>
#include <string.h>

#define RECORD_MAX   (4 * 1024 * 1024)
#define KEEPALIVE_US (15 * SECOND_US)

struct command_stream {
	struct exec_reader reader;
	char session_id[ID_SIZE];
	bool tells_command, has_begun, is_quiet;
	uint64_t seq;
	struct text_carry held[2];
	struct buf text, json, ascii;
	struct loop_timer *keepalive;
};

static struct command_stream *stream_of(struct exec_reader *r)
{
	return container_of(r, struct command_stream, reader);
}

/* One character behind p, which is valid UTF-8 beyond ASCII; gives its length. */
static size_t read_char(const unsigned char *p, uint32_t *ret)
{
	size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;

	*ret = p[0] & (0xffU >> (len + 1));
	for (size_t i = 1; i < len; i++)
		*ret = *ret << 6 | (p[i] & 0x3f);
	return len;
}

/* JSON has characters beyond ASCII only in strings, where they may be escaped. */
static int to_ascii(const char *json, size_t len, struct buf *out)
{
	const unsigned char *p = (const unsigned char *)json, *end = p + len;
	int r = 0;

	while (r == 0 && p < end) {
		size_t plain = 0;
		uint32_t c;

		while (p + plain < end && p[plain] < 0x80)
			plain++;
		r = buf_append(out, p, plain);
		p += plain;
		if (r < 0 || p == end)
			break;
		p += read_char(p, &c);
		if (c < 0x10000)
			r = buf_printf(out, "\\u%04x", c);
		else
			r = buf_printf(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
			               0xdc00 + ((c - 0x10000) & 0x3ff));
	}
	return r;
}

static struct json_writer record_begin(struct command_stream *cs)
{
	struct json_writer w;

	buf_truncate(&cs->json, 0);
	json_writer_init(&w, &cs->json);
	json_open_object(&w, NULL);
	return w;
}

/* < 0: the client is gone. */
static int record_send(struct command_stream *cs, struct json_writer *w)
{
	int r;

	json_close_object(w);
	buf_truncate(&cs->ascii, 0);
	r = json_writer_end(w);
	if (r == 0)
		r = to_ascii(cs->json.data, cs->json.len, &cs->ascii);
	if (r < 0) {
		cs->reader.is_ended = true;
		http_stream_abort(cs->reader.req);
		return r;
	}
	cs->is_quiet = false;
	return event_stream_send(cs->reader.req, EVENTS_NDJSON, NULL, 0, cs->ascii.data,
	                         cs->ascii.len);
}

static int send_command(struct command_stream *cs, bool is_first)
{
	struct json_writer w = record_begin(cs);

	put_command(&w, "command", cs->reader.e, cs->session_id, is_first);
	return record_send(cs, &w);
}

static int send_text(struct command_stream *cs, unsigned stream)
{
	struct json_writer w;

	if (cs->text.len == 0)
		return 0;
	w = record_begin(cs);
	json_put_str(&w, "stream", stream ? "stderr" : "stdout");
	json_put_strn(&w, "data", cs->text.data, cs->text.len);
	return record_send(cs, &w);
}

static int send_held(struct command_stream *cs)
{
	for (unsigned i = 0; i < ARRAY_SIZE(cs->held); i++) {
		int r;

		buf_truncate(&cs->text, 0);
		r = text_flush(&cs->held[i], &cs->text);
		if (r == 0)
			r = send_text(cs, i);
		if (r < 0)
			return r;
	}
	return 0;
}

static int send_spooled(struct command_stream *cs, const struct spool_event *event)
{
	unsigned stream = event->kind == SPOOL_STDERR;
	int r;

	cs->seq = event->seq;
	if (event->kind == SPOOL_GAP)
		return send_held(cs); /* Vercel's API cannot report lost output */
	buf_truncate(&cs->text, 0);
	r = text_take(&cs->held[stream], event->data, event->len, &cs->text);
	return r < 0 ? r : send_text(cs, stream);
}

static void end_with_error(struct command_stream *cs, const char *code, const char *message)
{
	struct json_writer w = record_begin(cs);

	json_put_str(&w, "stream", "error");
	json_open_object(&w, "data");
	json_put_str(&w, "code", code);
	json_put_str(&w, "message", message);
	json_close_object(&w);
	if (record_send(cs, &w) >= 0)
		exec_reader_end(&cs->reader, NULL);
}

static void end_closed(struct command_stream *cs)
{
	end_with_error(cs, "sandbox_stream_closed",
	               "Sandbox stream was closed and is not accepting commands.");
}

static void finish(struct command_stream *cs)
{
	struct exec_facts f;

	exec_look(cs->reader.e, &f);
	if (f.is_cut) {
		end_closed(cs);
		return;
	}
	if (send_held(cs) < 0 || (cs->tells_command && send_command(cs, /* is_first= */ false) < 0))
		return;
	exec_reader_end(&cs->reader, NULL);
}

/* 1: go on, 0: not yet, < 0: ended. */
static int begin(struct command_stream *cs)
{
	struct exec_reader *reader = &cs->reader;
	struct err err;

	if (cs->has_begun)
		return 1;
	if (!reader->e) {
		(void)err_set(&err, ERR_GONE, 0, "the sandbox has stopped");
		exec_reader_end(reader, &err);
		return -ENOENT;
	}
	if (exec_state(reader->e) == EXEC_STARTING)
		return 0;
	if (exec_state(reader->e) == EXEC_FAILED) {
		reader->is_ended = true;
		command_refuse(reader->req, exec_failure(reader->e));
		return -ECANCELED;
	}
	cs->has_begun = true;
	event_stream_start(reader->req, EVENTS_NDJSON);
	return cs->tells_command && send_command(cs, /* is_first= */ true) < 0 ? -EPIPE : 1;
}

static void pump(struct exec_reader *reader)
{
	struct command_stream *cs = stream_of(reader);
	struct spool_event event;
	struct err err;

	if (begin(cs) <= 0)
		return;
	for (unsigned n = 0; reader_may_go_on(http_loop(reader->req), n); n++) {
		int r;

		if (!reader->e) {
			end_closed(cs);
			return;
		}
		if (http_stream_pending(reader->req) >= HTTP_HIGH_WATER)
			return; /* on_drain goes on */
		r = spool_next(exec_spool(reader->e), cs->seq, &event, &err);
		if (r < 0) {
			end_with_error(cs, "internal", err.message);
			return;
		}
		if (r == 0 && exec_is_over(reader->e))
			finish(cs);
		if (r == 0 || send_spooled(cs, &event) < 0)
			return;
	}
	exec_reader_again(reader);
}

static void on_keepalive(struct loop *loop, void *arg)
{
	struct command_stream *cs = arg;
	bool was_quiet = cs->is_quiet;

	(void)loop;
	cs->is_quiet = true;
	loop_timer_set_in(cs->keepalive, KEEPALIVE_US);
	if (was_quiet && cs->has_begun && !cs->reader.is_ended &&
	    http_stream_pending(cs->reader.req) == 0 &&
	    event_stream_keepalive(cs->reader.req, EVENTS_NDJSON) < 0)
		cs->reader.is_ended = true;
}

static void done(struct exec_reader *r)
{
	struct command_stream *cs = stream_of(r);

	loop_timer_free(cs->keepalive);
	buf_done(&cs->text);
	buf_done(&cs->json);
	buf_done(&cs->ascii);
}

void command_stream(struct http_req *req, struct exec *e, const char *session_id,
                    bool tells_command)
{
	static const struct exec_reader_ops ops = {.pump = pump, .done = done};
	struct command_stream *cs = xnew0(struct command_stream);

	cs->tells_command = tells_command;
	(void)snprintf(cs->session_id, sizeof(cs->session_id), "%s", session_id);
	buf_init(&cs->text, RECORD_MAX);
	buf_init(&cs->json, RECORD_MAX);
	buf_init(&cs->ascii, 6 * (size_t)RECORD_MAX);
	cs->keepalive = loop_timer_new(http_loop(req), on_keepalive, cs);
	loop_timer_set_in(cs->keepalive, KEEPALIVE_US);
	exec_reader_init(&cs->reader, &ops, req, e, NULL, NULL);
}

int vercel_get_logs(struct http_req *req, struct err *err)
{
	struct vercel_session *s;
	struct exec *e;
	int r = find_command(req, &s, &e, err);

	if (r == 0)
		command_stream(req, e, s->id, /* tells_command= */ false);
	return r;
}
