// SPDX-License-Identifier: Apache-2.0
/*
 * An exec is a channel (exec_channel.c), a spool and its watchers. Frames change it. Watchers are
 * called once at the end of the turn, however many frames came, and after the row was written. So a
 * watcher may do anything, even remove the exec or delete the sandbox.
 *
 * Start and end are written to the event log in one transaction with the exec's row, so each is
 * logged exactly once, even if the gateway is killed.
 */
#include "sandbox/exec/exec.h"

#include "base/log.h"
#include "sandbox/exec/exec_private.h"
#include "telemetry/span.h"

#include <assert.h>

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

void exec_tell_end(struct exec *e)
{
	if (!e->is_end_untold)
		return;
	e->is_end_untold = false;
	emit_exec_exited(e);
}

void exec_note(struct exec *e)
{
	struct err err;

	exec_tell_end(e);
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
			exec_note(e);
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

/* Ends it if it runs, and forgets it. */
static void let_go(struct exec *e)
{
	struct err err;

	e->is_removed = true;
	(void)err_set(&err, ERR_GONE, 0, "the exec was deleted");
	exec_cut_short(e, END_KILLED, &err);
	broker_client_cancel(e->sandbox->fleet->broker, e->usage_tag);
	channel_forget(&e->channel);
	exec_tell_end(e);
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
