// SPDX-License-Identifier: Apache-2.0
/*
 * An exec is a channel, a spool and its watchers. Frames change it; watchers are called once at the
 * end of the turn, however many frames came, and after the row was written. So a watcher may do
 * anything, even remove the exec or delete the sandbox.
 *
 * Output goes to the spool first and is acknowledged to the agent after that. So if the gateway is
 * killed, what the agent has dropped is on disk, and the next gateway asks for the rest (RESUME).
 * When the host's disk is full, output is skipped and readers get a gap: the command goes on,
 * because its work matters more than its output.
 *
 * EXIT is the end of the command. Its children may keep its output open: output is collected until
 * CLOSED. Only then, after the row was written, is the agent told to forget the channel.
 *
 * Start and end are written to the event log in one transaction with the exec's row, so each is
 * logged exactly once, even if the gateway is killed.
 *
 * A command that failed, and that nobody ended, may have hit a limit: the broker's counters tell
 * (end_cause.c), and the end is held back until they are known.
 */
#include "sandbox/exec/exec.h"

#include "base/clock.h"
#include "base/log.h"
#include "sandbox/agentlink/agent_errno.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/fileops/file_call.h"
#include "telemetry/span.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>

#define REMOVE_BATCH 32 /* execs whose rows go in one transaction */

static const char *const states[] = {
	[EXEC_STARTING] = "starting",
	[EXEC_RUNNING] = "running",
	[EXEC_EXITED] = "exited",
	[EXEC_FAILED] = "failed",
};
static_assert(ARRAY_SIZE(states) == EXEC_STATE_COUNT, "a state has no name");

const char *exec_state_name(enum exec_state state)
{
	return states[state];
}

static void release(struct exec *e)
{
	exec_feed_free_all(e);
	span_drop(e->span);
	spool_free(e->spool, /* unlink_file= */ e->is_removed);
	json_decref(e->argv);
	free(e->shell);
	free(e->cwd);
	free(e->user);
	free(e->failure);
	json_decref(e->detail);
	free(e->why);
	free(e);
}

/* Adds it to the waiting entries; the next write to the store writes them too. */
static void tell_end(struct exec *e)
{
	if (!e->is_end_untold)
		return;
	e->is_end_untold = false;
	emit_exec_exited(e);
}

static void note(struct exec *e)
{
	struct err err;

	tell_end(e);
	if (exec_save(e, &err) < 0)
		log_error("exec.not_saved", "id=%s error='%s'", e->id, err.message);
}

/* Each is called once, even if a call adds or removes some. */
static void tell_watchers(struct exec *e)
{
	struct list due;
	struct exec_watch *w;

	list_init(&due);
	while ((w = list_first(&e->watches, struct exec_watch, link))) {
		list_remove(&w->link);
		list_append(&due, &w->link);
	}
	while ((w = list_first(&due, struct exec_watch, link))) {
		list_remove(&w->link);
		if (e->is_removed) {
			w->fn(NULL, w->arg);
			continue;
		}
		list_append(&e->watches, &w->link);
		w->fn(e, w->arg);
	}
}

static void exec_on_turn_end(struct loop *loop, void *arg)
{
	struct exec *e = arg;

	(void)loop;
	e->is_turn_due = false;
	if (!e->is_dead) {
		if (e->is_dirty && !e->is_removed)
			note(e);
		exec_feed_on(e);
		tell_watchers(e);
		if (!e->is_removed ||
		    e->is_turn_due) /* removed by a watcher: another turn is due */
			return;
	}
	release(e);
}

void exec_wake(struct exec *e)
{
	if (e->is_turn_due)
		return;
	e->is_turn_due = true;
	loop_defer(e->loop, exec_on_turn_end, e);
}

struct exec *exec_alloc(struct sandbox *s)
{
	struct exec *e = xnew0(struct exec);

	e->sandbox = s;
	e->loop = s->fleet->config.loop;
	list_init(&e->watches);
	list_init(&e->feeds);
	list_init(&e->link);
	list_init(&e->link_kept);
	list_init(&e->link_kept_project);
	return e;
}

void exec_attach(struct exec *e)
{
	struct sandbox *s = e->sandbox;

	list_append(&s->exec_list, &e->link);
	HASH_ADD_KEYPTR(hh, s->execs, e->id, strlen(e->id), e);
	s->n_execs++;
}

static void detach(struct exec *e)
{
	struct sandbox *s = e->sandbox;

	if (list_empty(&e->link))
		return;
	retention_remove_exec(e);
	kept_forget(e);
	list_remove(&e->link);
	HASH_DEL(s->execs, e);
	s->n_execs--;
}

void exec_free(struct exec *e)
{
	channel_forget(&e->channel);
	detach(e);
	e->is_dead = true;
	exec_wake(e);
}

/* The output is complete: the row is written before the agent may forget the channel. */
static void end_output(struct exec *e)
{
	e->is_output_over = true;
	note(e);
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
	log_debug("exec.ended", "id=%s state=%s cause=%s", e->id, states[state],
	          end_cause_name(cause));
	exec_wake(e);
}

static void fail(struct exec *e, const struct err *err)
{
	e->failure = xnew0(struct err);
	*e->failure = *err;
	end(e, EXEC_FAILED, END_NONE, NULL);
}

/* It ends without its own EXIT. */
static void cut_short(struct exec *e, enum end_cause cause, const struct err *why)
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

	cut_short(e, END_GUEST_CRASH, why);
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
	tell_end(e);
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
			cut_short(e, s->end.cause, &err);
		if (!e->is_output_over)
			end_output(e);
	}
}

/* Ends it if it runs, and forgets it. */
static void let_go(struct exec *e)
{
	struct err err;

	e->is_removed = true;
	(void)err_set(&err, ERR_GONE, 0, "the exec was deleted");
	cut_short(e, END_KILLED, &err);
	broker_client_cancel(e->sandbox->fleet->broker, e->usage_tag);
	channel_forget(&e->channel);
	tell_end(e);
}

/* Removes it after its row is gone. */
static void dismiss(struct exec *e)
{
	detach(e);
	if (!e->spool) /* of an earlier gateway's life, and nobody has read it since */
		spool_remove(e->sandbox->fleet->spool_fd, e->id);
	exec_wake(e);
}

bool exec_remove_some(struct sandbox *s, size_t left)
{
	struct exec *going[REMOVE_BATCH];
	const char *ids[REMOVE_BATCH] = {0};
	size_t n = 0, most = s->n_execs > left ? MIN(s->n_execs - left, REMOVE_BATCH) : 0;
	struct err err;

	if (most == 0)
		return false;
	list_for_each (&s->exec_list, struct exec, e, link) {
		if (n == most)
			break;
		let_go(e);
		ids[n] = e->id;
		going[n++] = e;
	}
	if (exec_unsave(s->fleet, ids, n, &err) < 0)
		log_error("exec.not_saved", "sandbox=%s execs=%zu error='%s'", s->id, n,
		          err.message);
	for (size_t i = 0; i < n; i++)
		dismiss(going[i]);
	return s->n_execs > left;
}

void exec_remove_all(struct sandbox *s)
{
	while (exec_remove_some(s, 0))
		continue;
}

void exec_free_all(struct sandbox *s)
{
	list_for_each (&s->exec_list, struct exec, e, link) {
		broker_client_cancel(s->fleet->broker, e->usage_tag);
		exec_free(e);
	}
}

void exec_remove(struct exec *e)
{
	struct err err;

	if (e->is_removed)
		return;
	let_go(e);
	if (exec_unsave(e->sandbox->fleet, &(const char *){e->id}, 1, &err) < 0)
		log_error("exec.not_saved", "id=%s error='%s'", e->id, err.message);
	dismiss(e);
}

struct exec *exec_find(struct sandbox *s, const char *id)
{
	struct exec *e = NULL;

	HASH_FIND_STR(s->execs, id, e);
	return e;
}

void exec_each(struct sandbox *s, void (*fn)(struct exec *e, void *arg), void *arg)
{
	for (struct list *l = s->exec_list.prev; l != &s->exec_list; l = l->prev)
		fn(list_entry(l, struct exec, link), arg);
}

const char *exec_id(const struct exec *e)
{
	return e->id;
}

enum exec_state exec_state(const struct exec *e)
{
	return e->state;
}

bool exec_is_over(const struct exec *e)
{
	return e->state == EXEC_EXITED || e->state == EXEC_FAILED;
}

uint32_t exec_pid(const struct exec *e)
{
	return e->pid;
}

bool exec_has_stdin(const struct exec *e)
{
	return e->has_stdin;
}

uint64_t exec_stdin_bytes(const struct exec *e)
{
	return e->channel.input_sent;
}

bool exec_has_pty(const struct exec *e)
{
	return e->has_pty;
}

const json_t *exec_argv(const struct exec *e)
{
	return e->argv;
}

const char *exec_cwd(const struct exec *e)
{
	return e->cwd;
}

uint64_t exec_ended_us(const struct exec *e)
{
	return e->ended_us;
}

const struct channel_exit *exec_exit(const struct exec *e)
{
	return &e->exit;
}

enum end_cause exec_cause(const struct exec *e)
{
	return e->cause;
}

int exec_exit_code(const struct exec *e)
{
	return e->state == EXEC_EXITED && e->exit.how == EXIT_CODE ? (int)e->exit.value : -1;
}

const char *exec_why(const struct exec *e)
{
	return e->why;
}

const struct err *exec_failure(const struct exec *e)
{
	return e->failure;
}

void exec_watch_add(struct exec *e, struct exec_watch *w)
{
	list_append(&e->watches, &w->link);
}

void exec_watch_remove(struct exec_watch *w)
{
	if (w->link.next) /* one that was never added may be all zeros */
		list_remove(&w->link);
}
