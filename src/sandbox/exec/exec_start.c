// SPDX-License-Identifier: Apache-2.0
/*
 * Starts an exec: makes room for it, builds the agent's START from its spec, makes its spool and
 * channel, writes its row, and only then tells the agent. If that fails after the row was written,
 * it is undone.
 */
#include "base/clock.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/model/create_rules.h"
#include "sandbox/usage/account.h"
#include "telemetry/span.h"

/* Removes the oldest execs that are over. */
static int make_room(struct sandbox *s, struct err *err)
{
	uint32_t max = rules_effective_exec_limits(s).execs;

	list_for_each (&s->exec_list, struct exec, e, link) {
		if (s->n_execs < max)
			break;
		if (exec_is_over(e) && e->is_output_over)
			exec_remove(e);
	}
	if (s->n_execs < max)
		return 0;
	return err_set(err, ERR_LIMIT, 0, "sandbox %s runs %zu execs, which is the limit", s->id,
	               s->n_execs);
}

static int start_failed(int r, struct err *err)
{
	if (r == -ENOSPC)
		return err_set(err, ERR_LIMIT, 0,
		               "the sandbox has %d execs and file operations under way, which is "
		               "the most",
		               FRAME_CHANNELS);
	if (r == -EINVAL)
		return err_set(err, ERR_INVALID_FIELD, 0, "the agent would not accept this exec");
	return err_set(err, ERR_UNAVAILABLE, -r, "the sandbox's agent accepts no more operations");
}

/* Everything is recorded before the agent is told, and the agent is told before the caller. */
static int hand_over(struct exec *e, struct link *l, const struct start *start,
                     const struct idempotency_key *idempotency_key, struct err *err)
{
	struct sandbox *s = e->sandbox;
	int r = exec_save(e, err);

	if (r == 0)
		r = idempotency_put(s->fleet, s->project_id, idempotency_key, e->id, err);
	if (r < 0)
		return r;
	account_on_exec(s);
	r = channel_start(&e->channel, l, e->number, &exec_channel_ops, start);
	if (r < 0)
		return start_failed(r, err);
	link_flush(l);
	return 0;
}

static int launch(struct exec *e, struct link *l, const struct start *start,
                  const struct idempotency_key *idempotency_key, struct err *err)
{
	struct sandbox *s = e->sandbox;
	int r = link_channels(l) < FRAME_CHANNELS ? 0 : start_failed(-ENOSPC, err);

	if (r == 0)
		r = spool_new(s->fleet->spool_fd, e->id,
		              rules_effective_exec_limits(s).output_bytes, &e->spool, err);
	if (r == 0)
		r = sandbox_take_channel(s, &e->number, err);
	if (r < 0)
		return r;
	emit_exec_started(e);
	r = hand_over(e, l, start, idempotency_key, err);
	if (r < 0)
		exec_take_back(e, err);
	return r;
}

static void begin_span(struct exec *e)
{
	const struct sandbox *s = e->sandbox;

	e->span = span_begin(s->fleet->config.telemetry, "exec");
	span_put_text(e->span, "cloche.exec.id", e->id);
	span_put_text(e->span, "cloche.sandbox.id", s->id);
	span_put_text(e->span, "cloche.project.id", s->project_id);
	span_put_text(e->span, "cloche.template", s->template);
	span_put_text(e->span, "cloche.engine", engine_name(s->engine));
}

static int build(struct exec *e, const struct exec_spec *spec, struct start *ret, struct err *err)
{
	struct exec_spec traced = *spec;
	struct trace_env env;

	if (trace_env_get(e->sandbox->fleet->config.telemetry, e->span, &env))
		traced.trace = &env;
	return exec_command_build(e->sandbox, &traced, e->id, ret, err);
}

int exec_start(struct sandbox *s, const struct exec_spec *spec, struct exec **ret, struct err *err)
{
	struct link *l = sandbox_link(s, err);
	struct start start;
	struct exec *e;
	int r;

	if (!l)
		return -EAGAIN;
	r = make_room(s, err);
	if (r < 0)
		return r;
	e = exec_alloc(s);
	id_make(e->id, "ex");
	begin_span(e);
	r = build(e, spec, &start, err);
	if (r < 0) {
		exec_free(e);
		return r;
	}
	e->argv = spec->argv ? json_deep_copy(spec->argv) : NULL;
	e->shell = spec->shell ? xstrdup(spec->shell) : NULL;
	e->cwd = spec->cwd ? xstrdup(spec->cwd) : NULL;
	e->user = spec->user ? xstrdup(spec->user) : NULL;
	e->has_stdin = spec->has_stdin;
	e->has_pty = spec->has_pty;
	e->timeout_ms = spec->timeout_ms;
	e->ends_with_caller = spec->ends_with_caller;
	e->created_us = clock_wall_us();
	e->oom_kills_before = s->oom_kills;
	e->pids_refused_before = s->pids_refused;
	r = launch(e, l, &start, spec->idempotency_key, err);
	start_done(&start);
	if (r < 0) {
		exec_free(e);
		return r;
	}
	exec_attach(e);
	*ret = e;
	return 0;
}
