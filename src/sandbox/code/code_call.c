// SPDX-License-Identifier: Apache-2.0
/*
 * Calls wait in their context's queue. The end of a call is reported at the end of the turn, so
 * that its caller may start another or delete the sandbox from there.
 */
#include "sandbox/code/code_call.h"

#include "base/clock.h"
#include "sandbox/code/interpreter.h"
#include "sandbox/usage/account.h"

#include <assert.h>
#include <string.h>

#define LANGUAGE_DEFAULT "python"

static const char *const statuses[] = {
	[CODE_OK] = "ok", [CODE_ERROR] = "error", [CODE_EXIT] = "exit", [CODE_DIED] = "died"};

const char *code_status_name(enum code_status status)
{
	return statuses[status];
}

static void call_free(struct code_call *call)
{
	span_drop(call->span);
	free(call->trace);
	free(call->failure);
	free(call->code);
	free(call);
}

static void tell_end(struct loop *loop, void *arg)
{
	struct code_call *call = arg;
	struct context *c = call->context && !call->context->is_removed ? call->context : NULL;

	(void)loop;
	if (call->ops)
		call->ops->on_end(c, call->failure ? NULL : &call->end, call->failure, call->arg);
	call_free(call);
}

static void leave_context(struct code_call *call)
{
	struct context *c = call->context;

	if (c->running == call) {
		c->running = NULL;
	} else {
		list_remove(&call->link);
		c->n_queue--;
	}
}

/* An error of the code is the code's own affair. */
static void end_span(struct code_call *call)
{
	const char *error = call->end.status == CODE_DIED ? "interpreter_died" : NULL;

	span_part(call->span, call->begun_us ? "run" : "queue");
	if (call->failure)
		error = err_code_name(call->failure->code);
	else
		span_put_text(call->span, "cloche.code.status", statuses[call->end.status]);
	if (call->end.cause)
		span_put_text(call->span, "cloche.code.cause", call->end.cause);
	span_end(take_ptr(call->span), error);
}

static void finish(struct code_call *call)
{
	assert(!call->is_over);
	end_span(call);
	leave_context(call);
	call->is_over = true;
	emit_code_ended(call);
	loop_defer(call->loop, tell_end, call);
}

void code_end(struct code_call *call, const struct code_end *end)
{
	call->end = *end;
	call->end.is_restarted = call->is_restarted;
	call->end.cause = call->end.cause ? call->end.cause : call->cause;
	call->end.wall_us = call->begun_us ? clock_steady_us() - call->begun_us : 0;
	if (end->status == CODE_OK && call->cause && strcmp(call->cause, "interrupted") == 0)
		call->end.cause = NULL; /* it came too late to matter */
	finish(call);
}

void code_fail(struct code_call *call, const struct err *err)
{
	call->failure = xnew0(struct err);
	*call->failure = *err;
	finish(call);
}

void code_fail_all(struct context *c, const struct err *err)
{
	struct code_call *call;

	if (c->running)
		code_fail(c->running, err);
	while ((call = list_first(&c->queue, struct code_call, link)))
		code_fail(call, err);
}

void code_forget_all(struct context *c)
{
	struct code_call *call;

	while ((call = c->running ? c->running : list_first(&c->queue, struct code_call, link))) {
		leave_context(call);
		call_free(call);
	}
}

struct code_call *code_current(struct context *c)
{
	if (c->running || c->state != CONTEXT_STARTING)
		return c->running;
	return list_first(&c->queue, struct code_call, link);
}

void code_tell_output(struct code_call *call, enum frame_stream stream, const char *data,
                      size_t len)
{
	if (call->ops && call->ops->on_output)
		call->ops->on_output(stream, data, len, call->arg);
}

void code_tell_event(struct code_call *call, enum code_event event, json_t *value)
{
	if (call->ops && call->ops->on_event)
		call->ops->on_event(event, value, call->arg);
	json_decref(value);
}

void code_kick(struct context *c)
{
	struct code_call *call = list_first(&c->queue, struct code_call, link);
	struct err err;

	if (!call || c->running || c->is_leaving || c->is_exit_held || c->is_removed)
		return;
	if (c->state == CONTEXT_DEAD) {
		if (interpreter_start(c, &err) < 0) {
			code_fail(call, &err);
			interpreter_wake(c);
		}
		return;
	}
	if (c->state != CONTEXT_IDLE)
		return;
	list_remove(&call->link);
	c->n_queue--;
	c->running = call;
	call->is_restarted = c->is_fresh && c->starts > 1;
	call->number = c->last_call = c->last_call == UINT32_MAX ? 1 : c->last_call + 1;
	call->begun_us = clock_steady_us();
	span_part(call->span,
	          c->is_fresh ? "interpreter" : "queue"); /* its start, or calls before */
	interpreter_run(c, call);
	if (call->ops && call->ops->on_start)
		call->ops->on_start(call->arg);
}

static int check_fit(const struct context *c, const struct code_spec *spec,
                     const struct language *language, struct err *err)
{
	if (spec->language && language != c->language)
		return err_field(err, "language", "context '%s' is of %s", c->name,
		                 c->language->name);
	if (spec->cwd || spec->user || spec->env)
		return err_set(err, ERR_CONFLICT, 0,
		               "context '%s' exists: cwd, user and env are given when one is made",
		               c->name);
	return 0;
}

/* Finds the context of the call; makes the language's default one if needed. */
static int pick_context(struct sandbox *s, const struct code_spec *spec, struct context **ret,
                        struct err *err)
{
	const char *language = spec->language ? spec->language : LANGUAGE_DEFAULT;
	const struct context_spec fresh = {
		.language = language, .cwd = spec->cwd, .user = spec->user, .env = spec->env};
	const struct language *known;
	int r = language_check(language, "language", &known, err);

	if (r < 0)
		return r;
	*ret = context_find(s, spec->context ? spec->context : known->name);
	if (*ret)
		return check_fit(*ret, spec, known, err);
	if (spec->context && strcmp(spec->context, known->name) != 0)
		return err_set(err, ERR_NOT_FOUND, 0, "no context '%.64s' in sandbox '%s'",
		               spec->context, s->id);
	return context_make(s, known->name, &fresh, ret, err);
}

static int check_queue(const struct context *c, const struct code_spec *spec, struct err *err)
{
	bool is_busy = c->running || c->sync || c->n_queue > 0;

	if (is_busy && spec->refuses_busy)
		return err_set(err, ERR_CONFLICT, 0, "context '%s' is busy with another call",
		               c->name);
	if (c->n_queue >= QUEUE_MAX)
		return err_set(err, ERR_LIMIT, 0,
		               "%d calls wait for context '%s', which is the limit", QUEUE_MAX,
		               c->name);
	return 0;
}

static void begin_span(struct code_call *call)
{
	const struct sandbox *s = call->context->sandbox;
	struct telemetry *t = s->fleet->config.telemetry;
	struct trace_env env;

	call->span = span_begin(t, "code");
	span_put_text(call->span, "cloche.language", call->context->language->name);
	span_put_text(call->span, "cloche.context.id", call->context->id);
	span_put_text(call->span, "cloche.sandbox.id", s->id);
	span_put_text(call->span, "cloche.project.id", s->project_id);
	span_put_text(call->span, "cloche.template", s->template);
	span_put_text(call->span, "cloche.engine", engine_name(s->engine));
	if (!trace_env_get(t, call->span, &env))
		return;
	call->trace = xnew0(struct trace_env);
	*call->trace = env;
}

int code_run(struct sandbox *s, const struct code_spec *spec, const struct code_ops *ops, void *arg,
             struct code_call **ret, struct err *err)
{
	struct code_call *call;
	struct context *c;
	int r;

	if (!sandbox_link(s, err))
		return -EAGAIN;
	r = pick_context(s, spec, &c, err);
	if (r == 0)
		r = check_queue(c, spec, err);
	if (r < 0)
		return r;
	call = xnew0(struct code_call);
	call->context = c;
	call->loop = c->loop;
	call->ops = ops;
	call->arg = arg;
	call->code = xstrdup(spec->code);
	call->env = spec->call_env;
	call->timeout_ms = spec->timeout_ms;
	call->ends_with_caller = spec->ends_with_caller;
	begin_span(call);
	list_append(&c->queue, &call->link);
	c->n_queue++;
	account_on_call(s);
	*ret = call;
	code_kick(c);
	return 0;
}

void code_pause(struct code_call *call, bool on)
{
	if (call->is_paused == on)
		return;
	call->is_paused = on;
	if (!on && !call->is_over)
		interpreter_wake(call->context);
}

void code_abandon(struct code_call *call)
{
	struct err err;

	call->ops = NULL;
	if (call->is_over)
		return;
	code_pause(call, false);
	if (!call->ends_with_caller)
		return;
	(void)err_set(&err, ERR_GONE, 0, "its caller has gone");
	if (call == call->context->running)
		interpreter_abandon(call->context);
	else
		code_fail(call, &err);
}
