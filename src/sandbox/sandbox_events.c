// SPDX-License-Identifier: Apache-2.0
/*
 * What goes into the event log and the daemon's counts: a function for each kind, called where the
 * thing happens. No word of a command but its first is told, and no environment: both carry
 * secrets. A code call leaves no entry of its own (its path touches no disk); a context's end tells
 * how many it has run.
 */
#include "base/clock.h"
#include "sandbox/interpreter.h"

static struct json_writer *begin(struct event *ev, const struct sandbox *s, enum event_type type)
{
	return event_begin(ev, s->fleet->config.events, type, s->project_id, s->id);
}

static void put_limits(struct json_writer *w, const struct sandbox *s)
{
	json_open_object(w, "limits");
	json_put_double(w, "vcpus", s->limits.cpu_milli / 1000.0);
	json_put_u64(w, "memory_mib", s->limits.memory_bytes >> 20);
	json_put_u64(w, "disk_mib", s->limits.disk_bytes >> 20);
	json_put_u64(w, "pids", s->limits.pids);
	json_close_object(w);
	json_put_u64(w, "timeout_ms", s->timeout_ms);
}

void emit_created(const struct sandbox *s)
{
	struct event ev;
	struct json_writer *w = begin(&ev, s, EVENT_SANDBOX_CREATED);

	s->fleet->counts.creates++;
	json_put_str(w, "name", s->name[0] ? s->name : NULL);
	put_limits(w, s);
	event_end(&ev);
}

void emit_rolled_back(const struct sandbox *s)
{
	struct event ev;
	struct json_writer *w = begin(&ev, s, EVENT_SANDBOX_ROLLED_BACK);

	json_put_str(w, "snapshot_id", s->snapshot_id);
	event_end(&ev);
}

void emit_refused(const struct sandbox *s, enum end_cause cause)
{
	struct event ev;
	struct json_writer *w = begin(&ev, s, EVENT_SANDBOX_ENDED);

	json_put_str(w, "state", sandbox_state_name(SANDBOX_FAILED));
	json_put_str(w, "cause", end_cause_name(cause));
	json_put_str(w, "message", "it could not be created");
	json_put_u64(w, "created_us", s->created_us);
	json_put_u64(w, "ended_us", clock_wall_us());
	json_put_u64(w, "oom_kills", 0);
	event_end(&ev);
}

static void put_end(struct json_writer *w, const struct sandbox *s)
{
	json_put_str(w, "cause", end_cause_name(s->end.cause));
	event_put_text(w, "message", s->end.message);
}

static void emit_stopping(const struct sandbox *s)
{
	struct event ev;

	put_end(begin(&ev, s, EVENT_SANDBOX_STOPPING), s);
	event_end(&ev);
}

static void emit_ended(const struct sandbox *s)
{
	struct event ev;
	struct json_writer *w = begin(&ev, s, EVENT_SANDBOX_ENDED);

	json_put_str(w, "state", sandbox_state_name(s->state));
	put_end(w, s);
	json_put_u64(w, "created_us", s->created_us);
	json_put_u64(w, "ended_us", s->end.at_us);
	json_put_u64(w, "oom_kills", s->oom_kills);
	event_end(&ev);
}

/* It can be resumed: this is not its end. */
static void emit_stopped(const struct sandbox *s)
{
	struct event ev;

	put_end(begin(&ev, s, EVENT_SANDBOX_STOPPED), s);
	event_end(&ev);
}

static void emit_rest(const struct sandbox *s, enum event_type type)
{
	struct event ev;
	struct json_writer *w = begin(&ev, s, type);

	json_put_u64(w, "resumes", s->resumes);
	event_end(&ev);
}

static void emit_paused(const struct sandbox *s)
{
	struct event ev;
	struct json_writer *w = begin(&ev, s, EVENT_SANDBOX_PAUSED);

	json_put_u64(w, "resumes", s->resumes);
	json_put_str(w, "to", s->paused_in[0] ? "disk" : "memory");
	json_put_str(w, "cause",
	             s->pause_cause == END_NONE ? NULL : end_cause_name(s->pause_cause));
	event_end(&ev);
}

static void emit_running(const struct sandbox *s)
{
	uint64_t now_us = clock_wall_us();
	uint64_t after_us = now_us > s->created_us ? now_us - s->created_us : 0;
	struct event ev;
	struct json_writer *w = begin(&ev, s, EVENT_SANDBOX_RUNNING);

	histogram_add(&s->fleet->counts.create_us, after_us);
	json_put_u64(w, "after_us", after_us);
	event_end(&ev);
}

void emit_moved(const struct sandbox *s, enum sandbox_state from)
{
	s->fleet->counts.creates_failed += from == SANDBOX_CREATING && s->state != SANDBOX_RUNNING;
	switch (s->state) {
	case SANDBOX_RUNNING:
		if (from == SANDBOX_CREATING && s->resumes == 0)
			emit_running(s);
		else
			emit_rest(s, EVENT_SANDBOX_RESUMED);
		return;
	case SANDBOX_PAUSED:
		emit_paused(s);
		return;
	case SANDBOX_STOPPING:
		emit_stopping(s);
		return;
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
		if (s->is_kept)
			emit_stopped(s);
		else
			emit_ended(s);
		return;
	case SANDBOX_PAUSING:
	case SANDBOX_CREATING:
	case SANDBOX_STATE_COUNT:
		return;
	}
}

void emit_adopted(const struct sandbox *s)
{
	struct event ev;

	(void)begin(&ev, s, EVENT_SANDBOX_ADOPTED);
	event_end(&ev);
}

void emit_changed(const struct sandbox *s, const char *what)
{
	struct event ev;
	struct json_writer *w = begin(&ev, s, EVENT_SANDBOX_CHANGED);

	json_put_str(w, "what", what);
	put_limits(w, s);
	event_end(&ev);
}

void emit_exec_started(const struct exec *e)
{
	const char *program = e->argv ? json_string_value(json_array_get(e->argv, 0)) : NULL;
	struct event ev;
	struct json_writer *w = begin(&ev, e->sandbox, EVENT_EXEC_STARTED);

	e->sandbox->fleet->counts.execs++;
	ev.exec_id = e->id;
	event_put_text(w, "program", program ? program : "sh");
	event_put_text(w, "user", e->user ? e->user : "user");
	json_put_bool(w, "pty", e->has_pty);
	json_put_u64(w, "timeout_ms", e->timeout_ms);
	event_end(&ev);
}

static void put_exit(struct json_writer *w, const struct exec *e)
{
	if (e->exit.how == EXIT_CODE)
		json_put_u64(w, "exit_code", e->exit.value);
	else if (e->exit.how == EXIT_SIGNAL)
		json_put_u64(w, "signal", e->exit.value);
	json_put_u64(w, "wall_us", e->exit.wall_us);
	json_put_u64(w, "user_us", e->exit.user_us);
	json_put_u64(w, "system_us", e->exit.system_us);
	json_put_u64(w, "max_rss_kib", e->exit.max_rss_kib);
	if (!e->spool)
		return;
	json_put_u64(w, "stdout_bytes", spool_bytes(e->spool, SPOOL_STDOUT));
	json_put_u64(w, "stderr_bytes", spool_bytes(e->spool, SPOOL_STDERR));
}

void emit_exec_exited(const struct exec *e)
{
	struct event ev;
	struct json_writer *w = begin(&ev, e->sandbox, EVENT_EXEC_EXITED);

	ev.exec_id = e->id;
	json_put_str(w, "state", exec_state_name(e->state));
	if (e->failure) {
		json_put_str(w, "error", err_code_name(e->failure->code));
		event_put_text(w, "message", e->failure->message);
	} else {
		json_put_str(w, "cause", end_cause_name(e->cause));
		put_exit(w, e);
	}
	event_end(&ev);
}

static struct json_writer *begin_context(struct event *ev, const struct context *c,
                                         enum event_type type)
{
	struct json_writer *w = begin(ev, c->sandbox, type);

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
