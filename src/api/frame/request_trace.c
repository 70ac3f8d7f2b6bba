// SPDX-License-Identifier: Apache-2.0
#include "api/frame/request_trace.h"

#include "http/parse.h"
#include "telemetry/span.h"

static struct telemetry *telemetry_of(const struct http_req *req)
{
	return ((const struct api *)http_app_arg(req))->telemetry;
}

/* A field that came twice says nothing: nobody knows which one is meant. */
static const char *only(const struct http_req *req, const char *name)
{
	const struct http_head *head = http_req_head(req);

	return http_head_count(head, name) == 1 ? http_head_find(head, name) : NULL;
}

void request_trace_begin(struct http_req *req)
{
	const struct http_route *route = http_route(req);
	const struct key *key = http_user(req);

	if (http_req_method(req) != HTTP_POST || !route || !key || !telemetry_of(req))
		return;
	if (!http_trace(req))
		http_set_trace(req, trace_begin(telemetry_of(req),
		                                &(struct trace_wish){
							.traceparent = only(req, "traceparent"),
							.tracestate = only(req, "tracestate"),
							.project_id = key_project_id(key),
							.method = http_method_name(HTTP_POST),
							.route = route->path}));
	request_trace_enter(req);
}

void request_trace_enter(const struct http_req *req)
{
	trace_enter(telemetry_of(req), http_trace(req));
}

void request_trace_leave(const struct http_req *req)
{
	trace_enter(telemetry_of(req), NULL);
}

void request_trace_end(const struct http_req *req, const struct http_outcome *o)
{
	struct trace *trace = http_trace(req);

	if (!trace)
		return;
	span_put_number(trace->span, "http.response.status_code", o->status);
	span_put_text(trace->span, "cloche.request.id", http_request_id(req));
	trace_end(trace, o->us, o->status >= 500 ? "server_error" : NULL);
}
