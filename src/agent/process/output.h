// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A channel's output between the program and the host: the last FRAME_WINDOW bytes at most, each
 * with its offset in the channel and its stream, kept until the host has acknowledged them.
 *
 *	acked <= sent <= end        room = FRAME_WINDOW - (end - acked)
 *
 * When there is no room the program's pipe is not read: it waits, and nothing is lost.
 */
#include "base/buf.h"
#include "proto/frame.h"

/* Two streams taking turns byte by byte would need a span for each byte: past this many the window
 * counts as full. */
#define OUTPUT_SPANS_MAX 4096

struct output_span {
	uint64_t end;
	enum frame_stream stream;
};

struct output {
	struct buf bytes; /* acked .. end */
	uint64_t acked, sent, end;
	struct output_span *spans; /* in order; spans[first] holds the byte at acked */
	size_t first, n_spans, spans_size;
};

void output_init(struct output *o);
void output_done(struct output *o);
/* Room for at least one byte and up to max, to be filled and then counted by output_commit().
 * -EAGAIN = the window is full. */
must_check int output_reserve(struct output *o, size_t max, char **ret_room, size_t *ret_len);
void output_commit(struct output *o, enum frame_stream stream, size_t len);
bool output_has_room(const struct output *o);
/* The next unsent stretch of one stream below `until`, FRAME_DATA_MAX at most; false = none. */
bool output_next(const struct output *o, uint64_t until, enum frame_stream *ret_stream,
                 const char **ret_data, size_t *ret_len);
void output_sent(struct output *o, size_t len);
must_check int output_ack(struct output *o, uint64_t upto);    /* -EPROTO if never sent */
must_check int output_resume(struct output *o, uint64_t from); /* -EPROTO if not held */
