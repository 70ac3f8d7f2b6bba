// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Event streams: the same events as NDJSON or as server-sent events, whichever the Accept header
 * asks for. */
#include "http/server.h"

enum event_format { EVENTS_NONE, EVENTS_NDJSON, EVENTS_SSE };
/* By Accept: application/x-ndjson, text/event-stream; NONE if neither is named. */
enum event_format event_format_of(const struct http_req *req);
void event_stream_start(struct http_req *req, enum event_format format);
/* json is one object without newline. SSE: "id: SEQ", "event: TYPE", "data: JSON"; seq 0 sends no
 * id. */
must_check int event_stream_send(struct http_req *req, enum event_format format, const char *type,
                                 uint64_t seq, const char *json, size_t len);
/* Sends a comment (SSE) or an empty line (NDJSON), so that proxies and clients see that the stream
 * is alive. */
must_check int event_stream_keepalive(struct http_req *req, enum event_format format);
