// SPDX-License-Identifier: Apache-2.0
/* The event log entries of execs: of a command only the first word, and no environment. */
#include "sandbox/exec/exec_private.h"
#include "sandbox/model/sandbox_events.h"

void emit_exec_started(const struct exec *e)
{
	const char *program = e->argv ? json_string_value(json_array_get(e->argv, 0)) : NULL;
	struct event ev;
	struct json_writer *w = emit_begin(&ev, e->sandbox, EVENT_EXEC_STARTED);

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
	struct json_writer *w = emit_begin(&ev, e->sandbox, EVENT_EXEC_EXITED);

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
