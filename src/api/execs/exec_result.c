// SPDX-License-Identifier: Apache-2.0
/*
 * The result of a sync exec: {exec, stdout, stderr, …} once it is over. Written in pieces straight
 * from the spool, so that megabytes of output, which JSON may make six times longer, never stand in
 * memory.
 *
 *	wait for the exec --> scan: how much, and is it text? --> a pass for each field
 *
 * Of each stream the last OUTPUT_BYTES_MAX are told: the end is what says why a command failed, and
 * the one part that the spool is sure to have.
 */
#include "api/execs/exec_reader.h"
#include "api/frame/text_carry.h"

#include "base/id.h"
#include "base/parse.h"

#include <stdio.h>
#include <string.h>

#define OUTPUT_BYTES_MAX (4 * 1024 * 1024)
#define PIECE_BYTES_MAX  (2 * 1024 * 1024) /* an exec with all its words, or an event, escaped */

static const struct {
	const char *name;
	unsigned stream;
	bool is_base64; /* only where the stream is not text */
} fields[] = {
	{"stdout", 0, false},
	{"stdout_base64", 0, true},
	{"stderr", 1, false},
	{"stderr_base64", 1, true},
};

enum phase { PHASE_WAIT, PHASE_SCAN, PHASE_FIELDS };

struct exec_result {
	struct exec_reader reader;
	enum phase phase;
	char sandbox_id[ID_SIZE];
	uint64_t seq;   /* the last one read in this pass */
	uint64_t until; /* the last one that counts: children may write on */
	struct {
		uint64_t ever, kept;
		bool is_not_text;
	} streams[2];
	size_t field;  /* being written */
	uint64_t skip; /* bytes of its stream still to be left out */
	struct text_carry held[2];
	struct buf raw, piece;
};

static struct exec_result *result_of(struct exec_reader *r)
{
	return container_of(r, struct exec_result, reader);
}

/* < 0: the client is gone, and res may be too. */
static int flush(struct exec_result *res)
{
	int r = http_stream_write(res->reader.req, res->piece.data, res->piece.len);

	if (r >= 0)
		buf_truncate(&res->piece, 0);
	return r;
}

/* Our own failure in the middle: a cut connection, rather than a result that looks whole. */
static int fail(struct exec_result *res)
{
	res->reader.is_ended = true;
	http_stream_abort(res->reader.req);
	return -ECANCELED;
}

static int begin(struct exec_result *res)
{
	struct json_writer w;

	http_stream_start(res->reader.req, 200, "application/json", -1);
	json_writer_init(&w, &res->piece);
	json_open_object(&w, NULL);
	if (*res->sandbox_id)
		json_put_str(&w, "sandbox_id", res->sandbox_id);
	exec_to_json(res->reader.e, &w, "exec");
	json_close_object(&w);
	if (json_writer_end(&w) < 0)
		return fail(res);
	buf_truncate(&res->piece, res->piece.len - 1); /* the object stays open */
	return flush(res);
}

/* 1: *ret is an event of this pass, 0: the pass is over, < 0: err. */
static int next(struct exec_result *res, struct spool_event *ret, struct err *err)
{
	int r;

	do {
		if (res->seq >= res->until)
			return 0;
		r = spool_next(exec_spool(res->reader.e), res->seq, ret, err);
		if (r <= 0)
			return r;
		res->seq = ret->seq;
	} while (ret->kind == SPOOL_GAP);
	return ret->seq <= res->until;
}

/* The exec is over: 1, go on; 0: it failed to run and that was told. */
static int start_scan(struct exec_result *res)
{
	struct spool *sp = exec_spool(res->reader.e);

	if (exec_state(res->reader.e) == EXEC_FAILED) {
		exec_reader_end(&res->reader, exec_failure(res->reader.e));
		return 0;
	}
	res->until = spool_last_seq(sp);
	res->streams[0].ever = spool_bytes(sp, SPOOL_STDOUT);
	res->streams[1].ever = spool_bytes(sp, SPOOL_STDERR);
	res->phase = PHASE_SCAN;
	return 1;
}

static int scan(struct exec_result *res, struct err *err)
{
	struct spool_event event;
	unsigned stream;
	int r = next(res, &event, err);

	if (r <= 0)
		return r;
	stream = event.kind == SPOOL_STDERR;
	res->streams[stream].kept += event.len;
	if (res->streams[stream].is_not_text)
		return 1;
	buf_truncate(&res->raw, 0);
	r = text_take(&res->held[stream], event.data, event.len, &res->raw);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "an output event is too long");
	res->streams[stream].is_not_text = !utf8_is_valid(buf_str(&res->raw), res->raw.len);
	return 1;
}

static int open_field(struct exec_result *res)
{
	uint64_t kept = res->streams[fields[res->field].stream].kept;

	res->seq = 0;
	res->skip = kept > OUTPUT_BYTES_MAX ? kept - OUTPUT_BYTES_MAX : 0;
	res->held[0].len = 0;
	buf_truncate(&res->raw, 0);
	return buf_printf(&res->piece, ",\"%s\":\"", fields[res->field].name);
}

/* Moves what may go from raw to piece: whole characters escaped, or whole groups of three bytes. */
static int encode(struct exec_result *res, bool is_last)
{
	bool is_base64 = fields[res->field].is_base64;
	size_t len = is_base64 && !is_last ? res->raw.len / 3 * 3 : res->raw.len;
	size_t before = res->piece.len;
	struct json_writer w;

	json_writer_init(&w, &res->piece);
	if (is_base64)
		json_put_base64(&w, NULL, buf_str(&res->raw), len);
	else
		json_put_strn(&w, NULL, buf_str(&res->raw), len);
	if (json_writer_end(&w) < 0)
		return -E2BIG;
	buf_consume(&res->raw, len);
	/* the quotes around this piece are not the string's */
	memmove(res->piece.data + before, res->piece.data + before + 1,
	        res->piece.len - before - 2);
	buf_truncate(&res->piece, res->piece.len - 2);
	return 0;
}

static int write_event(struct exec_result *res, const struct spool_event *event)
{
	size_t skip = (size_t)MIN(res->skip, event->len);
	int r;

	if ((event->kind == SPOOL_STDERR) != fields[res->field].stream)
		return 0;
	res->skip -= skip;
	if (fields[res->field].is_base64)
		r = buf_append(&res->raw, event->data + skip, event->len - skip);
	else
		r = text_take(&res->held[0], event->data + skip, event->len - skip, &res->raw);
	return r < 0 ? r : encode(res, /* is_last= */ false);
}

static int close_field(struct exec_result *res)
{
	int r = text_flush(&res->held[0], &res->raw);

	if (r == 0)
		r = encode(res, /* is_last= */ true);
	if (r == 0)
		r = buf_append_str(&res->piece, "\"");
	return r;
}

/* Steps to the next field that is to be written. false: there is none. */
static bool step_field(struct exec_result *res)
{
	do
		res->field++;
	while (res->field < ARRAY_SIZE(fields) && fields[res->field].is_base64 &&
	       !res->streams[fields[res->field].stream].is_not_text);
	return res->field < ARRAY_SIZE(fields);
}

static bool is_truncated(const struct exec_result *res, unsigned stream)
{
	return MIN(res->streams[stream].kept, OUTPUT_BYTES_MAX) < res->streams[stream].ever;
}

static void finish(struct exec_result *res)
{
	int r = buf_printf(&res->piece, ",\"stdout_truncated\":%s,\"stderr_truncated\":%s}",
	                   is_truncated(res, 0) ? "true" : "false",
	                   is_truncated(res, 1) ? "true" : "false");

	if (r < 0)
		(void)fail(res);
	else if (flush(res) >= 0)
		exec_reader_end(&res->reader, NULL);
}

/* One event, or a step to the next field. 1: go on, 0: all is written, < 0: ended. */
static int write_some(struct exec_result *res)
{
	struct spool_event event;
	struct err err;
	int r = next(res, &event, &err);

	if (r > 0) {
		r = write_event(res, &event);
		return r < 0 ? fail(res) : flush(res) < 0 ? -EPIPE : 1;
	}
	if (r == 0)
		r = close_field(res);
	if (r == 0 && !step_field(res))
		return 0;
	if (r == 0)
		r = open_field(res);
	return r < 0 ? fail(res) : 1;
}

/* 1: go on, 0: wait or all is done, < 0: ended. */
static int step(struct exec_result *res)
{
	struct err err;
	int r = 1;

	switch (res->phase) {
	case PHASE_WAIT:
		return exec_is_over(res->reader.e) ? start_scan(res) : 0;
	case PHASE_SCAN:
		r = scan(res, &err);
		if (r < 0) {
			exec_reader_end(&res->reader, &err);
			return r;
		}
		if (r == 0) {
			for (unsigned i = 0; i < 2; i++)
				res->streams[i].is_not_text |= res->held[i].len > 0;
			res->phase = PHASE_FIELDS;
			r = begin(res);
			if (r < 0)
				return r;
			return open_field(res) < 0 ? fail(res) : 1;
		}
		return 1;
	case PHASE_FIELDS:
		if (http_stream_pending(res->reader.req) >= HTTP_HIGH_WATER)
			return 0; /* on_drain goes on */
		r = write_some(res);
		if (r == 0)
			finish(res);
		return r;
	}
	return r;
}

static void pump(struct exec_reader *reader)
{
	struct exec_result *res = result_of(reader);
	struct err err;

	if (!reader->e && res->phase == PHASE_FIELDS) {
		(void)fail(res);
		return;
	}
	if (!reader->e) {
		(void)exec_reader_gone(&err);
		exec_reader_end(reader, &err);
		return;
	}
	for (unsigned n = 0; reader_may_go_on(http_loop(reader->req), n); n++)
		if (step(res) <= 0)
			return;
	exec_reader_again(reader);
}

static void done(struct exec_reader *r)
{
	struct exec_result *res = result_of(r);

	buf_done(&res->raw);
	buf_done(&res->piece);
}

static const struct exec_reader_ops result_ops = {.pump = pump, .done = done};

struct exec_reader *exec_result_new(struct http_req *req, struct exec *e, const char *sandbox_id,
                                    exec_reader_end_fn end, void *arg)
{
	struct exec_result *res = xnew0(struct exec_result);

	(void)snprintf(res->sandbox_id, sizeof(res->sandbox_id), "%s",
	               sandbox_id ? sandbox_id : "");
	buf_init(&res->raw, PIECE_BYTES_MAX);
	buf_init(&res->piece, PIECE_BYTES_MAX);
	exec_reader_init(&res->reader, &result_ops, req, e, end, arg);
	return &res->reader;
}
