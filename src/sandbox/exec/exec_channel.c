// SPDX-License-Identifier: Apache-2.0
/*
 * What the agent says about an exec, and how the exec ends.
 *
 * Output goes to the spool first and is acknowledged to the agent after that. So if the gateway is
 * killed, what the agent has dropped is on disk, and the next gateway asks for the rest (RESUME).
 * When the host's disk is full, output is skipped and readers get a gap: the command goes on,
 * because its work matters more than its output.
 *
 * EXIT is the end of the command. Its children may keep its output open: output is collected until
 * CLOSED. Only then, after the row was written, is the agent told to forget the channel.
 *
 * A command that failed, and that nobody ended, may have hit a limit: the broker's counters tell
 * (end_cause.c), and the end is held back until they are known.
 */
#include "base/clock.h"
#include "base/log.h"
#include "sandbox/agentlink/agent_errno.h"
#include "sandbox/exec/exec_private.h"
#include "telemetry/span.h"

#include <inttypes.h>

/* The output is complete: the row is written before the agent may forget the channel. */
static void end_output(struct exec *e)
{
	e->is_output_over = true;
	exec_note(e);
	channel_forget(&e->channel);
	if (e->spool)
		spool_rest(e->spool);
	kept_end(e);
}

/* An exit code that is not 0 is the command's own affair, and no error of the call. */
static void end_span(struct exec *e)
{
	span_part(e->span, e->started_us ? "run" : "agent");
	span_put_number(e->span, "cloche.exec.exit_code", exec_exit_code(e));
	span_put_text(e->span, "cloche.exec.cause", end_cause_name(e->cause));
	span_end(take_ptr(e->span), e->failure ? err_code_name(e->failure->code) : NULL);
}

/* u: the counters that decided, or NULL. */
static void end(struct exec *e, enum exec_state state, enum end_cause cause,
                const struct guest_usage *u)
{
	e->state = state;
	e->cause = cause;
	e->ended_us = clock_wall_us();
	if (state == EXEC_EXITED)
		end_cause_describe(e, u);
	end_span(e);
	e->is_dirty = e->is_end_untold = true;
	sandbox_touch(e->sandbox);
	log_debug("exec.ended", "id=%s state=%s cause=%s", e->id, exec_state_name(state),
	          end_cause_name(cause));
	exec_wake(e);
}

static void fail(struct exec *e, const struct err *err)
{
	e->failure = xnew0(struct err);
	*e->failure = *err;
	end(e, EXEC_FAILED, END_NONE, NULL);
}

void exec_cut_short(struct exec *e, enum end_cause cause, const struct err *why)
{
	if (e->is_exit_held) { /* its own end is known, only not who killed it */
		e->is_exit_held = false;
		broker_client_cancel(e->sandbox->fleet->broker, e->usage_tag);
		end(e, EXEC_EXITED, END_KILLED, NULL);
	} else if (e->state == EXEC_STARTING) {
		fail(e, why);
	} else if (e->state == EXEC_RUNNING) {
		e->exit = (struct channel_exit){0};
		end(e, EXEC_EXITED, cause, NULL);
	}
	exec_wake(e);
}

static struct exec *exec_of(struct channel *ch)
{
	return container_of(ch, struct exec, channel);
}

static void on_started(struct channel *ch, uint32_t pid)
{
	struct exec *e = exec_of(ch);

	e->pid = pid;
	if (e->is_orphan)
		exec_kill(e); /* unsent, it comes with the next connection */
	if (e->state != EXEC_STARTING)
		return;
	e->state = EXEC_RUNNING;
	/* The agent repeats STARTED after a restart; the first time is kept. */
	e->started_us = e->started_us ? e->started_us : clock_wall_us();
	span_part(e->span, "agent");
	exec_wake(e);
}

static uint64_t spooled(const struct exec *e)
{
	return spool_bytes(e->spool, SPOOL_STDOUT) + spool_bytes(e->spool, SPOOL_STDERR);
}

static int on_output(struct channel *ch, enum frame_stream stream, const char *data, size_t len)
{
	struct exec *e = exec_of(ch);
	uint64_t before = spooled(e);
	uint8_t kind = stream == STREAM_STDOUT ? SPOOL_STDOUT : SPOOL_STDERR;
	struct err err;

	if (stream == STREAM_RECORD)
		return -EPROTO;
	if (spool_put(e->spool, kind, data, len, &err) < 0) {
		spool_skip(e->spool, kind, len - (spooled(e) - before));
		if (!e->has_lost_output)
			log_error("exec.output_lost", "id=%s error='%s'", e->id, err.message);
		e->has_lost_output = true;
	}
	kept_note(e);
	channel_kept(ch, len);
	exec_wake(e);
	return 0;
}

static void on_gap(struct channel *ch, uint64_t len)
{
	struct exec *e = exec_of(ch);

	log_error("exec.output_lost", "id=%s bytes=%" PRIu64, e->id, len);
	spool_skip(e->spool, SPOOL_STDOUT, len);
	exec_wake(e);
}

static void on_room(struct channel *ch)
{
	exec_wake(exec_of(ch));
}

static void settle_exit(struct exec *e, enum end_cause cause, const struct guest_usage *u)
{
	end(e, EXEC_EXITED, cause, u);
	if (u && cause == END_OOM)
		e->sandbox->oom_kills = u->oom_kills;
	if (e->is_output_over)
		end_output(e);
}

static void on_usage(const struct msg_reply *reply, void *arg)
{
	struct exec *e = arg;

	e->usage_tag = 0;
	e->is_exit_held = false;
	if (reply->err.code != ERR_NONE) {
		settle_exit(e, end_cause_of_exit(&e->exit), NULL);
		return;
	}
	settle_exit(e, end_cause_by_usage(e, &reply->usage), &reply->usage);
	end_cause_note_usage(e->sandbox, &reply->usage);
}

static bool ask_for_cause(struct exec *e)
{
	struct msg_request req = {.op = MSG_USAGE};

	memcpy(req.id, e->sandbox->id, sizeof(req.id));
	return broker_client_ask(e->sandbox->fleet->broker, &req, on_usage, e, &e->usage_tag,
	                         NULL) == 0;
}

/* Times come from the agent and are only shown; they must fit into JSON integers. */
static void keep_exit(struct exec *e, const struct channel_exit *x)
{
	e->exit = *x;
	e->exit.wall_us = MIN(x->wall_us, (uint64_t)INT64_MAX);
	e->exit.user_us = MIN(x->user_us, (uint64_t)INT64_MAX);
	e->exit.system_us = MIN(x->system_us, (uint64_t)INT64_MAX);
	e->exit.max_rss_kib = MIN(x->max_rss_kib, (uint64_t)INT64_MAX);
}

static void on_exit_frame(struct channel *ch, const struct channel_exit *x)
{
	struct exec *e = exec_of(ch);
	struct err err;

	if (exec_is_over(e) || e->is_exit_held)
		return; /* told again after a resume */
	keep_exit(e, x);
	if (x->how == EXIT_FAILED) {
		(void)guest_error((int)x->value, x->message, &err);
		fail(e, &err);
	} else if (end_cause_needs_usage(x) && ask_for_cause(e)) {
		e->is_exit_held = true;
	} else {
		settle_exit(e, end_cause_of_exit(x), NULL);
	}
}

static void on_closed(struct channel *ch)
{
	struct exec *e = exec_of(ch);

	e->is_output_over = true;
	if (exec_is_over(e))
		end_output(e);
	exec_wake(e);
}

static void on_lost(struct channel *ch, const struct err *why)
{
	struct exec *e = exec_of(ch);

	exec_cut_short(e, END_GUEST_CRASH, why);
	end_output(e);
}

static void on_silent(struct channel *ch)
{
	struct exec *e = exec_of(ch);
	struct err err;

	if (e->state != EXEC_STARTING)
		return;
	(void)err_set(&err, ERR_UNAVAILABLE, 0, "the sandbox's agent does not answer");
	fail(e, &err);
	end_output(e);
}

const struct channel_ops exec_channel_ops = {
	.on_started = on_started,
	.on_output = on_output,
	.on_gap = on_gap,
	.on_room = on_room,
	.on_exit = on_exit_frame,
	.on_closed = on_closed,
	.on_lost = on_lost,
	.on_silent = on_silent,
	.is_paced = true,
};

void exec_take_back(struct exec *e, const struct err *why)
{
	struct err err;

	fail(e, why);
	exec_tell_end(e);
	idempotency_drop(e->sandbox->fleet, e->id);
	if (exec_unsave(e->sandbox->fleet, &(const char *){e->id}, 1, &err) < 0)
		log_error("exec.not_saved", "id=%s error='%s'", e->id, err.message);
}

void exec_rejoin_all(struct sandbox *s)
{
	list_for_each (&s->exec_list, struct exec, e, link) {
		if (e->is_output_over)
			continue;
		(void)exec_spool(e);
		e->started_us = e->started_us ? e->started_us : e->created_us;
		e->is_orphan = e->ends_with_caller;
		kept_note(e);
		channel_adopt(&e->channel, s->link, e->number, &exec_channel_ops, spooled(e));
	}
}

void exec_end_all(struct sandbox *s)
{
	struct err err;

	(void)err_set(&err, ERR_GONE, 0, "the sandbox has ended (%s): %s",
	              end_cause_name(s->end.cause), s->end.message);
	list_for_each (&s->exec_list, struct exec, e, link) {
		if (!exec_is_over(e))
			exec_cut_short(e, s->end.cause, &err);
		if (!e->is_output_over)
			end_output(e);
	}
}
