// SPDX-License-Identifier: Apache-2.0
/*
 * Around every request: on whose behalf events are written while its handler runs, and, when it is
 * over, one log line and one count. The line has the path without its query, which may hold
 * secrets; headers and bodies are never logged.
 */
#include "api/frame/access.h"

#include "api/frame/audit.h"
#include "api/frame/find.h"
#include "api/frame/request_trace.h"
#include "base/log.h"

#include <inttypes.h>

static void set_origin(const struct http_req *req)
{
	const struct api *api = http_app_arg(req);
	const struct key *key = http_user(req);

	event_log_set_origin(api->events,
	                     &(struct event_origin){.key_id = key ? key_id(key) : NULL,
	                                            .request_id = http_request_id(req),
	                                            .person = key ? key_person(key) : NULL,
	                                            .client = http_peer(req),
	                                            .agent = http_header(req, "User-Agent")});
}

void access_enter(struct http_req *req)
{
	set_origin(req);
	request_trace_begin(req);
}

void access_enter_again(struct http_req *req)
{
	http_set_told(req, false); /* what was told so far is what it has waited for */
	set_origin(req);
	request_trace_enter(req);
}

void access_leave(struct http_req *req)
{
	const struct api *api = http_app_arg(req);

	request_trace_leave(req);
	if (event_log_was_told(api->events))
		http_set_told(req, true);
	event_log_set_origin(api->events, &(struct event_origin){0});
}

static void count(struct api *api, const struct http_req *req, const struct http_outcome *o)
{
	const struct http_route *route = http_route(req);
	size_t row = route ? (size_t)(route - api->routes) : API_ROUTES_MAX;

	/* A client that left before its answer counts as its own mistake. */
	api->http.requests[row][o->status ? MIN(o->status / 100, 5) : 4]++;
	api->http.bytes_out += o->bytes;
	api->http.refused += o->status == 429 || o->status == 503;
}

void access_ended(const struct http_req *req, const struct http_outcome *o)
{
	const struct key *key = http_user(req);

	count(http_app_arg(req), req, o);
	request_trace_end(req, o);
	set_origin(req);
	audit_request(req, o);
	event_log_set_origin(((const struct api *)http_app_arg(req))->events,
	                     &(struct event_origin){0});
	log_write(o->status >= 500 ? LOG_WARN : LOG_DEBUG, "http.request",
	          "request=%s method=%s path='%s' status=%d us=%" PRIu64 " bytes=%" PRIu64
	          " whole=%d key=%s",
	          http_request_id(req), http_method_name(http_req_method(req)), http_path(req),
	          o->status, o->us, o->bytes, o->is_whole, key ? key_id(key) : "none");
}
