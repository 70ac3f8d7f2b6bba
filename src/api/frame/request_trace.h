// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The trace of a request (telemetry/span.h): begun where its handler is called, in force while code
 * works for it, and told when it is over. Requests that start or change something are traced, so
 * those with POST; a request without a key is not.
 */
#include "api/api.h"

void request_trace_begin(struct http_req *req);
/* For work that goes on from the loop: what is begun until the leave belongs to the request. */
void request_trace_enter(const struct http_req *req);
void request_trace_leave(const struct http_req *req);
void request_trace_end(const struct http_req *req, const struct http_outcome *o);
