// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A reader: one request that is being answered with a code call. Two kinds: code_events.c sends
 * each event as it comes, code_result.c one object at the end. Both begin with a struct code_reader
 * and let go of the call when they are freed.
 */
#include "http/stream.h"
#include "sandbox/code/code_call.h"

/* The last byte is written, but the reply is not ended; or, with err, nothing was sent. */
typedef void (*code_reader_end_fn)(struct http_req *req, const struct err *err, void *arg);

struct code_reader {
	void (*done)(struct code_reader *r); /* frees what the kind holds, not r */
	http_done_fn on_drain;               /* or NULL */
	struct http_req *req;
	struct code_call *call; /* NULL: over */
	code_reader_end_fn end; /* NULL: the reader ends the reply and goes with the request */
	void *arg;
};

struct code_reader_spec {
	struct http_req *req;
	const struct code_spec *code;
	enum event_format format; /* EVENTS_NONE: a result */
	code_reader_end_fn end;
	void *arg;
};

/* Runs the code; *ret is the caller's where it has given an end. */
must_check int code_reader_new(const struct code_reader_spec *spec, struct sandbox *s,
                               struct code_reader **ret, struct err *err);
must_check int code_result_new(const struct code_reader_spec *spec, struct sandbox *s,
                               struct code_reader **ret, struct err *err);
must_check int code_events_new(const struct code_reader_spec *spec, struct sandbox *s,
                               struct code_reader **ret, struct err *err);
void code_reader_free(struct code_reader *r); /* NULL is fine */

/* For the kinds. Runs the code for r, which is freed if that fails. */
must_check int code_reader_start(struct code_reader *r, const struct code_reader_spec *spec,
                                 struct sandbox *s, const struct code_ops *ops, struct err *err);
void code_reader_fail(struct code_reader *r, const struct err *err); /* nothing was sent */

/* The fields that a result and the event `done` share. */
void code_put_end(struct json_writer *w, const struct context *c, const struct code_end *end);
