// SPDX-License-Identifier: Apache-2.0
/*
 * The process behind a context: a channel of the agent that carries the code's output and the
 * driver's messages (driver_message.h), in one order.
 *
 * The whole process is user code. If it breaks the stream's format, it is ended, and only that
 * context loses its state. To kill it, FORGET is sent: the agent kills the whole tree and there is
 * nothing to wait for, so the next process may start at once.
 *
 * Timeouts: a call over its time is interrupted; if it does not end within the grace time, its
 * interpreter is killed. That also holds across a restart of the gateway (crash_counters.h); there
 * a call that was to end with its caller is over its time at once. While the gateway lives, such a
 * call keeps its time and its interpreter when its caller leaves, and is interrupted repeatedly,
 * since code may catch an interrupt or be about to block. Starting and ending a process have
 * timeouts too.
 */
#include "sandbox/code/interpreter.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/agentlink/agent_errno.h"
#include "sandbox/code/driver_message.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/fileops/file_call.h"

#include <signal.h>
#include <string.h>

#define GRACE_US     (2 * SECOND_US)
#define AGAIN_US     (1 * SECOND_US) /* between the first two interrupts of an abandoned call */
#define AGAIN_MAX_US (64 * SECOND_US)
#define LONG_PAST_US                                                                               \
	1 /* the deadline, for the next gateway, of a call that is to end with its caller */
#define ENV_MAX    (TRACESTATE_SIZE + TRACEPARENT_SIZE + 256) /* with the lines of a wire */
#define HELD_MAX   (8 * FRAME_WINDOW) /* a window in single bytes, with their heads */
#define ERROR_NAME "InterpreterDied"

void interpreter_set_phase(struct context *c, enum interpreter_phase phase, uint64_t in_us)
{
	c->phase = phase;
	if (phase == PHASE_NONE)
		loop_timer_set(c->timer, UINT64_MAX);
	else
		loop_timer_set_in(c->timer, in_us);
}

void interpreter_set_deadline(struct context *c, uint64_t in_us)
{
	uint64_t until_us = in_us > 0 ? loop_now_us(c->loop) + in_us : 0;

	crash_counter_set(c->sandbox->fleet->crash_counters, &c->deadline, c->id, until_us);
}

static void turn_end(struct loop *loop, void *arg)
{
	struct context *c = arg;

	(void)loop;
	c->is_turn_due = false;
	if (c->is_removed)
		return;
	interpreter_flush(c);
	code_kick(c);
	if (c->sandbox->spare)
		c->sandbox->fleet->spares->on_warm(c->sandbox);
}

void interpreter_wake(struct context *c)
{
	if (c->is_turn_due || c->is_removed)
		return;
	c->is_turn_due = true;
	loop_defer(c->loop, turn_end, c);
}

void interpreter_reset(struct context *c)
{
	channel_forget(&c->channel);
	broker_client_cancel(c->sandbox->fleet->broker, c->usage_tag);
	broker_client_cancel(c->sandbox->fleet->broker, c->fork_tag);
	c->usage_tag = c->fork_tag = 0;
	c->ahead_tag[0] = '\0';
	c->sandbox->fleet->message_bytes -= c->in.len;
	buf_done(&c->in);
	buf_done(&c->out);
	buf_done(&c->held);
	c->exit = (struct channel_exit){0};
	c->is_exit_held = c->is_leaving = c->is_split = c->takes_env = c->can_save = c->is_held =
		false;
	c->sync = c->saving = 0;
	c->count = 0;
	c->state = CONTEXT_DEAD;
	interpreter_set_deadline(c, 0);
	interpreter_set_phase(c, PHASE_NONE, 0);
	interpreter_tell_lost(c, "the interpreter ended");
}

static void end_as_dead(struct code_call *call, const struct code_end *end, const char *message)
{
	code_tell_event(call, CODE_EVENT_ERROR, driver_message_make_error(ERROR_NAME, message));
	code_end(call, end);
}

void interpreter_drop(struct context *c, const char *cause, const char *message)
{
	const struct code_end end = {.status = CODE_DIED, .cause = cause, .count = c->count};

	interpreter_reset(c);
	if (c->running)
		end_as_dead(c->running, &end, message);
	interpreter_wake(c);
}

void interpreter_broken(struct context *c, const char *what)
{
	char message[160];

	(void)snprintf(message, sizeof(message),
	               "the code broke the interpreter's connection (%s), and it was killed", what);
	log_info("context.broken", "sandbox=%s context=%s why='%s'", c->sandbox->id, c->id, what);
	interpreter_drop(c, NULL, message);
}

int interpreter_interrupt(struct context *c, struct err *err)
{
	const uint8_t payload[2] = {SIGINT, SCOPE_GROUP};
	int r = channel_send(&c->channel, FRAME_SIGNAL, payload, sizeof(payload));

	return r < 0 ? err_set(err, ERR_UNAVAILABLE, -r,
	                       "the sandbox's agent accepts no more operations")
	             : 0;
}

/* 0 if its time is up; unlimited without a timeout. */
static uint64_t time_left_us(const struct code_call *call)
{
	uint64_t until_us = call->begun_us + call->timeout_ms * 1000, now_us = clock_steady_us();

	if (call->timeout_ms == 0)
		return UINT64_MAX;
	return until_us > now_us ? until_us - now_us : 0;
}

void interpreter_abandon(struct context *c)
{
	struct err err;

	(void)!context_interrupt(c, &err);
	if (c->phase == PHASE_GRACE || c->phase == PHASE_LAST_GRACE)
		return; /* its time was up before */
	c->again_us = AGAIN_US;
	interpreter_set_phase(c, PHASE_ABANDONED, MIN(c->again_us, time_left_us(c->running)));
}

void interpreter_write(struct context *c)
{
	ssize_t n;

	if (c->out.len == 0)
		return;
	n = channel_write(&c->channel, c->out.data, c->out.len);
	if (n > 0)
		buf_consume(&c->out, (size_t)n);
}

void interpreter_set_split(struct context *c, bool is_split)
{
	struct err err;

	if (c->is_split == is_split)
		return;
	c->is_split = is_split;
	if (context_save(c, &err) < 0)
		log_error("context.not_saved", "id=%s error='%s'", c->id, err.message);
}

/* For this call alone: the process has an environment of its own, from its start. */
static int put_env(struct context *c, const struct code_call *call)
{
	auto_call(buf_done) struct buf lines = BUF_INIT(ENV_MAX);
	int r = 0;

	if ((!call->trace && !call->env) || !c->takes_env)
		return 0;
	if (call->env)
		r = buf_append(&lines, call->env, strlen(call->env));
	if (r == 0 && call->trace)
		r = buf_printf(&lines, "TRACEPARENT=%s\n", call->trace->parent);
	if (r == 0 && call->trace && call->trace->state[0])
		r = buf_printf(&lines, "TRACESTATE=%s\n", call->trace->state);
	if (r == 0)
		r = driver_message_put_head(&c->out, "env", call->number, lines.len);
	return r < 0 ? r : buf_append(&c->out, lines.data, lines.len);
}

void interpreter_run(struct context *c, struct code_call *call)
{
	size_t len = strlen(call->code);

	sandbox_disturb(c->sandbox);
	c->state = CONTEXT_BUSY;
	c->is_fresh = false;
	if (put_env(c, call) < 0 ||
	    driver_message_put_head(&c->out, "run", call->number, len) < 0 ||
	    buf_append(&c->out, call->code, len) < 0)
		abort(); /* it holds one call, and the code's length was checked */
	len = c->out.len;
	interpreter_write(c);
	interpreter_set_split(c, c->out.len > 0 || len > FRAME_DATA_MAX);
	if (call->timeout_ms > 0)
		interpreter_set_phase(c, PHASE_CALL, call->timeout_ms * 1000);
	if (call->ends_with_caller)
		crash_counter_set(c->sandbox->fleet->crash_counters, &c->deadline, c->id,
		                  LONG_PAST_US);
	else
		interpreter_set_deadline(c, call->timeout_ms * 1000);
}

static struct context *context_of(struct channel *ch)
{
	return container_of(ch, struct context, channel);
}

/* The process never ran; the message says what the client can do. */
static void fail_start(struct context *c, struct code_call *call, const struct channel_exit *x)
{
	struct err err;

	if (strncmp(x->message, AGENT_NO_PROGRAM, strlen(AGENT_NO_PROGRAM)) == 0) {
		(void)err_set(&err, ERR_UNSUPPORTED, 0,
		              "%s needs the program '%s', and the template '%s' does not have it",
		              c->language->name, c->language->program, c->sandbox->template);
		(void)language_hint(c->sandbox->fleet, c->sandbox->project_id, c->language->name,
		                    &err);
	} else {
		(void)guest_error((int)x->value, x->message, &err);
	}
	if (call)
		code_fail(call, &err);
}

static void died(struct context *c, bool is_oom)
{
	struct code_call *call = code_current(c);
	const struct channel_exit x = c->exit;
	struct code_end end = {.status = CODE_DIED,
	                       .count = c->count,
	                       .cause = is_oom ? "oom" : NULL,
	                       .has_exit_code = x.how == EXIT_CODE,
	                       .exit_code = (int)x.value};
	char message[120];

	interpreter_reset(c);
	interpreter_wake(c);
	if (x.how == EXIT_FAILED) {
		fail_start(c, call, &x);
		return;
	}
	if (x.how == EXIT_CODE) {
		(void)snprintf(message, sizeof(message), "the interpreter ended with exit code %u",
		               x.value);
	} else {
		end.exit_code = 0;
		end.signal = (int)x.value;
		(void)snprintf(message, sizeof(message), "the interpreter was killed by %s%s",
		               sigabbrev_np((int)x.value) ? "SIG" : "signal ",
		               sigabbrev_np((int)x.value) ? sigabbrev_np((int)x.value)
		                                          : "of real time");
	}
	if (is_oom)
		(void)snprintf(message, sizeof(message),
		               "the interpreter was killed: the sandbox was out of memory");
	if (call)
		end_as_dead(call, &end, message);
}

static void on_usage(const struct msg_reply *reply, void *arg)
{
	struct context *c = arg;
	struct sandbox *s = c->sandbox;
	bool is_oom = reply->err.code == ERR_NONE && reply->usage.oom_kills > s->oom_kills;

	c->usage_tag = 0;
	if (is_oom)
		s->oom_kills = reply->usage.oom_kills;
	died(c, is_oom);
}

static bool ask_for_cause(struct context *c)
{
	struct msg_request req = {.op = MSG_USAGE};

	if (c->usage_tag)
		return true;
	memcpy(req.id, c->sandbox->id, sizeof(req.id));
	return broker_client_ask(c->sandbox->fleet->broker, &req, on_usage, c, &c->usage_tag,
	                         NULL) == 0;
}

/* The process has ended; its end is handled once all its output was taken. */
void interpreter_settle_exit(struct context *c)
{
	if (c->held.len > 0 || interpreter_is_paused(c))
		return;
	if (c->is_forked && c->state == CONTEXT_STARTING && c->imprint_fd < 0) {
		interpreter_start_afresh(c,
		                         c->exit.how == EXIT_FAILED ? c->exit.message : "it ended");
		return;
	}
	if (exit_may_be_oom(&c->exit) && code_current(c) && ask_for_cause(c))
		return;
	died(c, /* is_oom= */ false);
}

static void on_exit_frame(struct channel *ch, const struct channel_exit *x)
{
	struct context *c = context_of(ch);

	if (c->exit.how != 0)
		return; /* told again after a resume */
	c->exit = *x;
	c->is_exit_held = true;
	interpreter_settle_exit(c);
}

void interpreter_lost(struct context *c, const struct err *why)
{
	struct code_call *call = code_current(c);

	interpreter_reset(c);
	if (call)
		code_fail(call, why);
	interpreter_wake(c);
}

static void on_lost(struct channel *ch, const struct err *why)
{
	interpreter_lost(context_of(ch), why);
}

static void on_imprint(struct channel *ch, int fd, const char *why)
{
	interpreter_on_imprint(context_of(ch), fd, why);
}

static void on_silent(struct channel *ch)
{
	struct err err;

	if (context_of(ch)->state != CONTEXT_STARTING)
		return;
	(void)err_set(&err, ERR_UNAVAILABLE, 0, "the sandbox's agent does not answer");
	on_lost(ch, &err);
}

static void on_gap(struct channel *ch, uint64_t len)
{
	(void)ch; /* only for what an earlier gateway began, and that is passed over */
	(void)len;
}

static void on_room(struct channel *ch)
{
	interpreter_write(context_of(ch));
}

static void on_closed(struct channel *ch)
{
	(void)ch; /* its end was told before */
}

static int on_output(struct channel *ch, enum frame_stream stream, const char *data, size_t len)
{
	return interpreter_take(context_of(ch), stream, data, len);
}

const struct channel_ops interpreter_channel_ops = {
	.on_output = on_output,
	.on_gap = on_gap,
	.on_room = on_room,
	.on_exit = on_exit_frame,
	.on_closed = on_closed,
	.on_lost = on_lost,
	.on_silent = on_silent,
	.on_imprint = on_imprint,
	.is_paced = true,
};

static void time_up(struct context *c)
{
	struct err err;

	if (c->running)
		c->running->cause = "timeout";
	(void)!interpreter_interrupt(c, &err);
	interpreter_set_phase(c, PHASE_GRACE, GRACE_US / 2);
}

static void go_on_abandoning(struct context *c)
{
	struct err err;

	if (time_left_us(c->running) == 0) {
		time_up(c);
		return;
	}
	if (c->sandbox->state == SANDBOX_RUNNING) { /* else it could not heed it */
		(void)!interpreter_interrupt(c, &err);
		c->again_us = MIN(2 * c->again_us, AGAIN_MAX_US);
	}
	interpreter_set_phase(c, PHASE_ABANDONED, MIN(c->again_us, time_left_us(c->running)));
}

/* For a process that was found again, the time to start counts from the moment when the agent names
 * it. A paused sandbox, perhaps on disk for days, has no agent that could. */
static bool awaits_agent(struct context *c)
{
	const bool was_named = c->is_named;

	c->is_named = c->channel.link && link_is_up(c->channel.link) && c->channel.is_listed;
	return !was_named || !c->is_named;
}

static void on_timer(struct loop *loop, void *arg)
{
	struct context *c = arg;
	struct err err;

	(void)loop;
	switch (c->phase) {
	case PHASE_START:
		if (c->sync && c->channel.has_started)
			break; /* it runs a call of an earlier gateway */
		if (c->sync && awaits_agent(c)) {
			interpreter_set_phase(c, PHASE_START, interpreter_start_us(c));
			break;
		}
		(void)err_set(&err, ERR_UNAVAILABLE, 0, "the interpreter did not get ready");
		interpreter_lost(c, &err);
		break;
	case PHASE_CALL:
		if (c->sync && c->sandbox->state != SANDBOX_RUNNING) {
			interpreter_set_phase(c, PHASE_CALL,
			                      INTERPRETER_ORPHAN_US); /* it cannot answer */
			break;
		}
		time_up(c);
		break;
	case PHASE_ABANDONED:
		go_on_abandoning(c);
		break;
	case PHASE_GRACE: /* a signal just before a blocking call does not wake it: once more */
		(void)!interpreter_interrupt(c, &err);
		interpreter_set_phase(c, PHASE_LAST_GRACE, GRACE_US / 2);
		break;
	case PHASE_LAST_GRACE:
		interpreter_drop(c, "timeout",
		                 "its time was up and it did not stop when interrupted: the "
		                 "interpreter was killed, its state is gone");
		break;
	case PHASE_LEAVE:
		interpreter_drop(c, NULL, "");
		break;
	case PHASE_NONE:
		break;
	}
}

void interpreter_init(struct context *c)
{
	c->state = CONTEXT_DEAD;
	c->deadline = CRASH_COUNTER_NONE;
	c->imprint_fd = -1;
	c->timer = loop_timer_new(c->loop, on_timer, c);
	buf_init(&c->in, DRIVER_MESSAGE_MAX);
	buf_init(&c->out, 2 * DRIVER_MESSAGE_HEAD_MAX + ENV_MAX + CODE_BYTES_MAX);
	buf_init(&c->held, HELD_MAX);
}

void interpreter_done(struct context *c)
{
	close_fd(&c->imprint_fd);
	loop_timer_free(c->timer);
	buf_done(&c->in);
	buf_done(&c->out);
	buf_done(&c->held);
}
