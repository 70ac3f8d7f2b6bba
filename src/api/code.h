// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The two ways to answer a code call: one object at its end, or events as they come. Both stay with
 * the request, and let go of the call when the client leaves. */
#include "http/stream.h"
#include "sandbox/code.h"

struct code_body {
	struct code_spec spec;
	bool kills_on_disconnect;
};

must_check int code_result_start(struct http_req *req, struct sandbox *s,
                                 const struct code_body *body, struct err *err);
must_check int code_events_start(struct http_req *req, struct sandbox *s,
                                 const struct code_body *body, enum event_format format,
                                 struct err *err);

/* The fields that a result and the event `done` share. */
void code_put_end(struct json_writer *w, const struct context *c, const struct code_end *end);
