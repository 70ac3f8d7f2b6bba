// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output.h"

#include <assert.h>
#include <string.h>

void output_init(struct output *o)
{
	*o = (struct output){.bytes = BUF_INIT(FRAME_WINDOW)};
}

void output_done(struct output *o)
{
	buf_done(&o->bytes);
	free(o->spans);
	o->spans = NULL;
}

bool output_has_room(const struct output *o)
{
	return buf_room(&o->bytes) > 0 && o->n_spans < OUTPUT_SPANS_MAX;
}

int output_reserve(struct output *o, size_t max, char **ret_room, size_t *ret_len)
{
	size_t len = MIN(max, buf_room(&o->bytes));

	if (!output_has_room(o) || buf_reserve(&o->bytes, len, ret_room) < 0)
		return -EAGAIN;
	*ret_len = len;
	return 0;
}

static void add_span(struct output *o, enum frame_stream stream)
{
	if (o->first > 0 && o->first + o->n_spans == o->spans_size) {
		memmove(o->spans, o->spans + o->first, o->n_spans * sizeof(*o->spans));
		o->first = 0;
	}
	if (o->first + o->n_spans == o->spans_size) {
		o->spans_size = o->spans_size ? o->spans_size * 2 : 8;
		o->spans = xrealloc(o->spans, o->spans_size * sizeof(*o->spans));
	}
	o->spans[o->first + o->n_spans++] = (struct output_span){o->end, stream};
}

void output_commit(struct output *o, enum frame_stream stream, size_t len)
{
	struct output_span *last = o->n_spans ? &o->spans[o->first + o->n_spans - 1] : NULL;

	buf_commit(&o->bytes, len);
	o->end += len;
	if (last && last->stream == stream)
		last->end = o->end;
	else
		add_span(o, stream);
}

bool output_next(const struct output *o, uint64_t until, enum frame_stream *ret_stream,
                 const char **ret_data, size_t *ret_len)
{
	size_t low = o->first, high = o->first + o->n_spans;

	until = MIN(until, o->end);
	if (o->sent >= until)
		return false;
	/* The first span that ends behind sent. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (o->spans[middle].end > o->sent)
			high = middle;
		else
			low = middle + 1;
	}
	*ret_stream = o->spans[low].stream;
	*ret_data = o->bytes.data + (o->sent - o->acked);
	*ret_len = (size_t)MIN(MIN(o->spans[low].end, until) - o->sent, (uint64_t)FRAME_DATA_MAX);
	return true;
}

void output_sent(struct output *o, size_t len)
{
	o->sent += len;
	assert(o->sent <= o->end);
}

static void drop_until(struct output *o, uint64_t upto)
{
	buf_consume(&o->bytes, (size_t)(upto - o->acked));
	o->acked = upto;
	while (o->n_spans > 0 && o->spans[o->first].end <= upto) {
		o->first++;
		o->n_spans--;
	}
	if (o->bytes.len == 0) { /* an idle channel costs no buffer */
		output_done(o);
		o->first = o->spans_size = 0;
	}
}

int output_ack(struct output *o, uint64_t upto)
{
	if (upto > o->sent)
		return -EPROTO;
	if (upto > o->acked)
		drop_until(o, upto);
	return 0;
}

int output_resume(struct output *o, uint64_t from)
{
	if (from < o->acked || from > o->end)
		return -EPROTO;
	o->sent = from;
	drop_until(o, from);
	return 0;
}
