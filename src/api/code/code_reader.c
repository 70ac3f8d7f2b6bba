// SPDX-License-Identifier: Apache-2.0
#include "api/code/code_reader.h"

void code_reader_free(struct code_reader *r)
{
	if (!r)
		return;
	if (r->call)
		code_abandon(r->call);
	r->done(r);
	free(r);
}

void code_reader_fail(struct code_reader *r, const struct err *err)
{
	if (r->end)
		r->end(r->req, err, r->arg);
	else
		http_reply_err(r->req, err);
}

static void on_client_done(void *arg)
{
	code_reader_free(arg);
}

int code_reader_start(struct code_reader *r, const struct code_reader_spec *spec, struct sandbox *s,
                      const struct code_ops *ops, struct err *err)
{
	int result;

	r->req = spec->req;
	r->end = spec->end;
	r->arg = spec->arg;
	result = code_run(s, spec->code, ops, r, &r->call, err);
	if (result < 0) {
		code_reader_free(r);
		return result;
	}
	if (r->on_drain)
		http_on_drain(r->req, r->on_drain, r);
	if (!r->end)
		http_on_done(r->req, on_client_done, r);
	return 0;
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
	if (end->has_cpu)
		json_put_u64(w, "cpu_us", end->cpu_us);
	else
		json_put_null(w, "cpu_us");
}
