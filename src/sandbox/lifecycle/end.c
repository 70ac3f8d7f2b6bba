// SPDX-License-Identifier: Apache-2.0
/*
 * The end of a sandbox: its cause is recorded, then the steps of end_steps[] run. The broker is
 * asked until it confirms that nothing runs, so "stopped" always means that nothing runs. If the
 * gateway is killed in between, the row says "stopping", and the next start runs the steps once
 * more.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/lifecycle/restorable.h"
#include "sandbox/lifecycle/results.h"
#include "sandbox/model/registry.h"
#include "sandbox/network/network.h"
#include "sandbox/snapshot/snapshots.h"
#include "sandbox/usage/account.h"
#include "vmm/orders.h"

#include <sys/wait.h>

#define DELETE_AGAIN_US (5 * SECOND_US)

/* Whether the cause is a failure, not a request. */
static bool is_failure(enum end_cause cause)
{
	return cause == END_GUEST_CRASH || cause == END_OOM;
}

/* A fork's snapshot is removed with the last sandbox that was started from it, or should have
 * been. */
static void drop_snapshot(struct fleet *fleet, const char id[ID_SIZE])
{
	if (id[0])
		snapshot_drop_unused(fleet, id);
}

/* Forgets a sandbox whose create failed. */
static void forget_undone(struct sandbox *s)
{
	struct fleet *fleet = s->fleet;
	char snapshot_id[ID_SIZE];

	memcpy(snapshot_id, s->snapshot_id, sizeof(snapshot_id));
	sandbox_move(s, PHASE_STOPPED);
	idempotency_drop(fleet, s->id);
	sandbox_tell_all(s, &s->waiters, NULL);
	sandbox_forget(s);
	drop_snapshot(fleet, snapshot_id);
}

/* A spare or a failed create keeps nothing, so its callers are told here. */
static void settle_callers(struct sandbox *s)
{
	if (s->spare) {
		sandbox_move(s, PHASE_STOPPED);
		s->fleet->spares->on_gone(s);
		return;
	}
	if (s->phase == PHASE_UNDOING)
		create_tell(s, &s->create_err);
	if (s->phase == PHASE_UNDOING && !s->is_deleted && s->resumes == 0)
		forget_undone(s);
	else
		life_next(s);
}

static bool remove_some_execs(struct loop *loop, void *arg)
{
	struct sandbox *s = arg;

	while (exec_remove_some(s, 0))
		if (!loop_has_time(loop))
			return false;
	life_next(s);
	return true;
}

/* There may be thousands of execs, so the sandbox stays in stopping until they are removed. */
static void remove_execs(struct sandbox *s)
{
	pause_forget(s);
	if (!s->is_deleted || s->results || s->n_execs == 0) {
		life_next(s);
		return;
	}
	sandbox_move(s, PHASE_REMOVING);
	loop_job_start(s->exec_removal);
}

static void close_end(struct sandbox *s)
{
	sandbox_move(s, is_failure(s->end.cause) ? PHASE_FAILED : PHASE_STOPPED);
	sandbox_note(s);
	fleet_on_ended(s->fleet, s);
	if (!s->is_kept)
		drop_snapshot(s->fleet, s->snapshot_id);
	sandbox_tell_all(s, &s->waiters, NULL);
	resume_on_ended(s);
}

static void ask_delete(struct sandbox *s);

/* Calls then() when all its usage is known. */
static void on_answer(struct sandbox *s, const struct msg_reply *reply,
                      void (*then)(struct sandbox *s))
{
	s->ask = 0;
	if (reply->err.code == ERR_NONE) {
		account_on_gone(s, reply);
		network_when_over(s, then);
		return;
	}
	log_error("sandbox.not_deleted", "id=%s error='%s'", s->id, reply->err.message);
	loop_timer_set_in(s->timer, DELETE_AGAIN_US);
}

static void on_delete_reply(const struct msg_reply *reply, void *arg)
{
	on_answer(arg, reply, life_next);
}

/* A delete may have come while it was being stopped. */
static void on_stopped(struct sandbox *s)
{
	if (s->is_kept)
		life_next(s);
	else
		ask_delete(s);
}

static void on_stop_reply(const struct msg_reply *reply, void *arg)
{
	on_answer(arg, reply, on_stopped);
}

static void ask_delete(struct sandbox *s)
{
	struct err err;
	int r = s->is_kept && !s->outlive.origin[0] /* else its files are not all there */
	                ? sandbox_ask(s, MSG_STOP, on_stop_reply, &err)
	                : sandbox_ask(s, MSG_DELETE, on_delete_reply, &err);

	if (r == 0)
		return;
	log_error("sandbox.not_deleted", "id=%s error='%s'", s->id, err.message);
	if (s->phase == PHASE_UNDOING) /* nothing comes of waiting: the next start clears up */
		create_tell(s, &s->create_err);
	loop_timer_set_in(s->timer, DELETE_AGAIN_US);
}

static void note_end(struct sandbox *s, enum end_cause cause, json_t *detail, const char *message)
{
	s->end.cause = cause;
	s->end.at_us = clock_wall_us();
	json_decref(s->end.detail);
	s->end.detail = detail;
	(void)snprintf(s->end.message, sizeof(s->end.message), "%s", message);
	log_info("sandbox.ending", "id=%s cause=%s message='%s'", s->id, end_cause_name(cause),
	         message);
}

static void end_parts(struct sandbox *s)
{
	parts_end(s);
	life_next(s);
}

static const struct life_step end_steps[] = {
	{"results", results_collect}, /* its programs still run */
	{"parts", end_parts},         /* what waits for it, runs in it or is connected to it */
	{"guest", ask_delete},        /* asked again until the broker confirms */
	{"owner", restorable_disown}, /* nobody restores it once it is said to be deleted */
	{"callers", settle_callers},  /* tells those that wait for it to run */
	{"execs", remove_execs},      /* and their output, if it is deleted */
	{"record", close_end},        /* tells those that wait for its end */
};
/* For a sandbox that the broker does not know. */
static const struct life_step end_steps_without_guest[] = {
	{"parts", end_parts},    {"owner", restorable_disown}, {"callers", settle_callers},
	{"execs", remove_execs}, {"record", close_end},
};

/* phase: ending or undoing. */
static void begin_end(struct sandbox *s, enum sandbox_phase phase, enum end_cause cause,
                      json_t *detail, const char *message)
{
	note_end(s, cause, detail, message);
	s->ended_from = s->phase;
	results_begin_end(s);
	sandbox_move(s, phase);
	sandbox_note(s);
	life_begin(s, end_steps);
}

static bool is_ending(const struct sandbox *s)
{
	return s->state == SANDBOX_STOPPING || !sandbox_is_alive(s);
}

void sandbox_end(struct sandbox *s, enum end_cause cause, json_t *detail, const char *message)
{
	if (is_ending(s))
		json_decref(detail);
	else
		begin_end(s, PHASE_ENDING, cause, detail, message);
}

void sandbox_undo(struct sandbox *s, enum end_cause cause, const char *message,
                  const struct err *why)
{
	if (is_ending(s))
		return;
	s->create_err = *why;
	begin_end(s, PHASE_UNDOING, cause, NULL, message);
}

/* Continues an end that was cut short when the gateway was killed. */
void sandbox_end_again(struct sandbox *s)
{
	s->ended_from = PHASE_ENDING;
	life_begin(s, end_steps);
}

static void on_timer(struct loop *loop, void *arg)
{
	(void)loop;
	if (pause_is_on_disk(arg))
		pause_try_again(arg);
	else
		ask_delete(arg);
}

void end_init(struct sandbox *s)
{
	s->timer = loop_timer_new(s->fleet->config.loop, on_timer, s);
	s->exec_removal = loop_job_new(s->fleet->config.loop, remove_some_execs, s);
}

void end_done(struct sandbox *s)
{
	loop_timer_free(s->timer);
	loop_job_free(s->exec_removal);
	sandbox_drop_waiters(&s->waiters);
}

void sandbox_close_books(struct sandbox *s, enum end_cause cause, json_t *detail,
                         const char *message)
{
	note_end(s, cause, detail, message);
	sandbox_move(s, PHASE_ENDING);
	life_begin(s, end_steps_without_guest);
}

void sandbox_end_orphan(struct sandbox *s)
{
	s->is_deleted = true;
	sandbox_end(s, END_DELETED, NULL, "the daemon stopped, and with it went its caller");
}

static const struct {
	enum vmm_exit code;
	const char *machine, *message;
} machine_ends[] = {
	{VMM_EXIT_OFF, "off", "its machine was switched off from inside"},
	{VMM_EXIT_PANIC, "panic", "its kernel panicked, or its init ended"},
	{VMM_EXIT_RESET, "reset", "its machine was reset from inside"},
	{VMM_EXIT_QEMU, "vmm", "QEMU died under it"},
	{VMM_EXIT_LINK, "link", "its machine broke the protocol of its port"},
	{VMM_EXIT_KVM, "kvm", "this host's KVM could not go on with it"},
};

/* NULL if it is not a machine, or ended like an ordinary process. */
static json_t *describe_machine(const struct sandbox *s, int wait_status, char *message,
                                size_t size)
{
	if (!engine_traits(s->engine)->has_own_kernel || !WIFEXITED(wait_status))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(machine_ends); i++)
		if ((int)machine_ends[i].code == WEXITSTATUS(wait_status)) {
			(void)snprintf(message, size, "%s", machine_ends[i].message);
			return json_pack("{s:s}", "machine", machine_ends[i].machine);
		}
	return NULL;
}

static json_t *describe_exit(int wait_status, char *message, size_t size)
{
	bool is_signal = WIFSIGNALED(wait_status);
	int value = is_signal ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status);

	(void)snprintf(message, size,
	               is_signal ? "its agent was killed by signal %d"
	                         : "its agent exited with code %d",
	               value);
	return json_pack("{s:i}", is_signal ? "signal" : "exit_code", value);
}

void sandbox_on_guest_ended(struct sandbox *s, const struct msg_reply *reply)
{
	int status = reply->ended.wait_status;
	enum end_cause cause;
	json_t *detail;
	char message[120];
	struct err err;

	if (pause_is_on_disk(s)) /* it was about to be ended, and has it all behind it */
		return;
	if (s->state == SANDBOX_CREATING && s->fleet->adoption)
		return; /* an earlier broker's start was cut short: the adoption settles it */
	if (end_cause_is_shortage(reply)) {
		cause = END_OOM;
		detail = end_cause_describe_shortage(s, &reply->ended.shortage, message,
		                                     sizeof(message));
	} else {
		cause = status == 0 ? END_EXITED : END_GUEST_CRASH;
		detail = describe_machine(s, status, message, sizeof(message));
		if (!detail)
			detail = describe_exit(status, message, sizeof(message));
	}
	if (s->state == SANDBOX_CREATING) {
		json_decref(detail);
		(void)err_set(&err, ERR_GUEST, 0, "the sandbox did not start: %s", message);
		create_fail(s, &err);
		return;
	}
	sandbox_end(s, cause, detail, message);
}

static const char *delete_message(enum end_cause cause)
{
	return cause == END_DELETED ? "it was deleted" : "it was ended";
}

/* on_stopped() continues. A stop would leave files to resume from; this does not. */
static void delete_stopping(struct sandbox *s, enum end_cause cause)
{
	note_end(s, cause, NULL, delete_message(cause));
	sandbox_note(s);
}

void sandbox_delete(struct sandbox *s, enum end_cause cause, sandbox_done_fn done, void *arg)
{
	bool was_kept = s->is_kept;

	if (!sandbox_is_alive(s) && !was_kept) {
		sandbox_tell(s->fleet, done, arg, s, NULL);
		sandbox_forget(s);
		return;
	}
	sandbox_wait(&s->waiters, done, arg);
	s->is_deleted = true;
	s->is_kept = false;
	if (!sandbox_is_alive(s)) { /* its files are removed, though it does not run */
		fleet_on_revived(s->fleet, s);
		begin_end(s, PHASE_ENDING, END_DELETED, NULL, "it was deleted");
	} else if (s->state == SANDBOX_STOPPING && was_kept) {
		delete_stopping(s, cause);
	} else {
		sandbox_end(s, cause, NULL, delete_message(cause));
	}
}

int sandbox_stop(struct sandbox *s, sandbox_done_fn done, void *arg, struct err *err)
{
	if (!sandbox_is_alive(s)) {
		if (!s->is_kept)
			return sandbox_has_ended(s, err);
		sandbox_tell(s->fleet, done, arg, s, NULL);
		return 0;
	}
	sandbox_wait(&s->waiters, done, arg);
	sandbox_end(s, END_STOPPED, NULL, "it was stopped");
	return 0;
}

void sandbox_await_end(struct sandbox *s, sandbox_done_fn done, void *arg)
{
	sandbox_wait(&s->waiters, done, arg);
}
