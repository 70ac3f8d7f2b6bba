// SPDX-License-Identifier: Apache-2.0
#include "http/stream.h"

#include "http/parse.h"

#include <inttypes.h>

#define EVENT_HEAD_MAX 256

enum event_format event_format_of(const struct http_req *req)
{
	const char *accept = http_header(req, "Accept");

	if (accept && http_list_has(accept, "application/x-ndjson"))
		return EVENTS_NDJSON;
	if (accept && http_list_has(accept, "text/event-stream"))
		return EVENTS_SSE;
	return EVENTS_NONE;
}

void event_stream_start(struct http_req *req, enum event_format format)
{
	/* nginx would hold events back until a buffer is full */
	http_reply_header(req, "X-Accel-Buffering", "no");
	http_stream_start(req, 200,
	                  format == EVENTS_SSE ? "text/event-stream" : "application/x-ndjson", -1);
}

static int put_event(struct buf *out, enum event_format format, const char *type, uint64_t seq,
                     const char *json, size_t len)
{
	int r = 0;

	if (format == EVENTS_SSE && seq > 0)
		r = buf_printf(out, "id: %" PRIu64 "\n", seq);
	if (r == 0 && format == EVENTS_SSE)
		r = buf_printf(out, "event: %s\ndata: ", type);
	if (r == 0)
		r = buf_append(out, json, len);
	if (r == 0)
		r = buf_append_str(out, format == EVENTS_SSE ? "\n\n" : "\n");
	return r;
}

int event_stream_send(struct http_req *req, enum event_format format, const char *type,
                      uint64_t seq, const char *json, size_t len)
{
	/* One write for each event, so that it is one chunk and clients rarely see half of an
	 * event. */
	auto_call(buf_done) struct buf out = BUF_INIT(len + EVENT_HEAD_MAX);
	int r = put_event(&out, format, type, seq, json, len);

	return r < 0 ? r : http_stream_write(req, out.data, out.len);
}

int event_stream_keepalive(struct http_req *req, enum event_format format)
{
	const char *text = format == EVENTS_SSE ? ":\n\n" : "\n";

	return http_stream_write(req, text, strlen(text));
}
