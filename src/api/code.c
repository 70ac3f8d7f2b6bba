// SPDX-License-Identifier: Apache-2.0
#include "api/code.h"

#include "api/body.h"
#include "api/find.h"
#include "api/handlers.h"

int run_code(struct http_req *req, struct err *err)
{
	enum event_format format = event_format_of(req);
	struct code_body body;
	struct sandbox *s;
	int r = no_query(req, err);

	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r == 0)
		r = check_accept(req, result_types, err);
	if (r == 0)
		r = body_read_code(http_json(req), &body, err);
	if (r < 0)
		return r;
	if (format == EVENTS_NONE)
		return code_result_start(req, s, &body, err);
	return code_events_start(req, s, &body, format, err);
}

void code_put_end(struct json_writer *w, const struct context *c, const struct code_end *end)
{
	if (c)
		context_to_json(c, w, "context");
	else
		json_put_null(w, "context");
	json_put_str(w, "status", code_status_name(end->status));
	json_put_str(w, "cause", end->cause);
	json_put_u64(w, "count", end->count);
	if (end->has_exit_code)
		json_put_i64(w, "exit_code", end->exit_code);
	else
		json_put_null(w, "exit_code");
	if (end->signal)
		json_put_i64(w, "signal", end->signal);
	else
		json_put_null(w, "signal");
	json_put_bool(w, "restarted", end->is_restarted);
	json_put_u64(w, "wall_us", end->wall_us);
}
