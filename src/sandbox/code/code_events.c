// SPDX-License-Identifier: Apache-2.0
/*
 * The event log entries and counts of contexts and calls. A call has no entry of its own, so that
 * it needs no disk; the entry for a context's end has the number of its calls.
 */
#include "sandbox/code/interpreter.h"
#include "sandbox/model/sandbox_events.h"

static struct json_writer *begin_context(struct event *ev, const struct context *c,
                                         enum event_type type)
{
	struct json_writer *w = emit_begin(ev, c->sandbox, type);

	json_put_str(w, "context_id", c->id);
	json_put_str(w, "name", c->name);
	json_put_str(w, "language", c->language->name);
	return w;
}

void emit_context_created(const struct context *c)
{
	struct event ev;

	(void)begin_context(&ev, c, EVENT_CONTEXT_CREATED);
	event_end(&ev);
}

void emit_context_ended(const struct context *c)
{
	struct event ev;
	struct json_writer *w = begin_context(&ev, c, EVENT_CONTEXT_ENDED);

	json_put_u64(w, "calls", c->last_call);
	json_put_u64(w, "starts", c->starts);
	event_end(&ev);
}

void emit_code_ended(const struct code_call *call)
{
	struct fleet_counts *counts = &call->context->sandbox->fleet->counts;

	if (call->failure)
		counts->code_failed++;
	else
		histogram_add(&counts->code_us, call->end.wall_us);
}
