// SPDX-License-Identifier: Apache-2.0
/*
 * Putting a sandbox to rest and waking it.
 *
 * A pause is MSG_FREEZE: every process but the agent stops where it is. The row says "pausing"
 * before and "paused" after, and "running" only after MSG_THAW was answered; so what a restart
 * finds is made true by asking once more, for a pause that was under way to go back, for a paused
 * one to be frozen. Whoever asked for a pause that failed is told when the sandbox runs again.
 *
 * A stopped persistent sandbox is resumed by a create over the layer that was kept: same id, name,
 * environment, limits, tags; its processes are new. Everyone who asks for it meanwhile waits in
 * `callers`, whatever the state, so that any number of calls make one start.
 */
#include "base/log.h"
#include "sandbox/account.h"
#include "sandbox/ceiling.h"
#include "sandbox/network.h"

static void start_thaw(struct sandbox *s);

static int ask(struct sandbox *s, enum msg_op op, broker_client_fn fn, struct err *err)
{
	struct msg_request req = {.op = op};

	memcpy(req.id, s->id, sizeof(req.id));
	return broker_client_ask(s->fleet->broker, &req, fn, s, &s->freeze_ask, err);
}

static void back_to_running(struct sandbox *s)
{
	s->pause_cause = END_NONE;
	sandbox_move(s, SANDBOX_RUNNING);
	clocks_go_on(s);
	network_go_on(s);
	sandbox_note(s);
	sandbox_tell_all(s, &s->pausers, &s->create_err); /* it could not be paused */
	sandbox_tell_all(s, &s->callers, NULL);
}

static void tell_both(struct sandbox *s, const struct err *err)
{
	sandbox_tell_all(s, &s->pausers, err);
	sandbox_tell_all(s, &s->callers, err);
}

static void on_frozen(const struct msg_reply *reply, int fd, void *arg)
{
	struct sandbox *s = arg;

	if (fd >= 0)
		(void)close(fd);
	s->freeze_ask = 0;
	if (reply->err.code != ERR_NONE) {
		log_warn("sandbox.unpaused", "id=%s error='%s'", s->id, reply->err.message);
		s->create_err = reply->err;
		if (s->state == SANDBOX_PAUSING) /* it may be frozen all the same, or in part */
			start_thaw(s);
		else
			sandbox_tell_all(s, &s->pausers, &reply->err);
		return;
	}
	if (s->state == SANDBOX_PAUSING) {
		sandbox_move(s, SANDBOX_PAUSED);
		sandbox_note(s);
	}
	sandbox_tell_all(s, &s->pausers, NULL);
	if (!list_empty(&s->callers))
		start_thaw(s);
}

static void start_freeze(struct sandbox *s)
{
	struct err err;

	if (ask(s, MSG_FREEZE, on_frozen, &err) < 0)
		sandbox_tell_all(s, &s->pausers, &err);
}

static void on_thawed(const struct msg_reply *reply, int fd, void *arg)
{
	struct sandbox *s = arg;

	if (fd >= 0)
		(void)close(fd);
	s->freeze_ask = 0;
	if (reply->err.code != ERR_NONE) {
		log_warn("sandbox.unresumed", "id=%s error='%s'", s->id, reply->err.message);
		s->falls_back = false;
		sandbox_tell_all(s, &s->callers, &reply->err);
		if (s->state == SANDBOX_PAUSING && reply->err.code != ERR_UNAVAILABLE)
			back_to_running(s); /* a host that cannot freeze has nothing to thaw */
		else
			sandbox_tell_all(s, &s->pausers, &reply->err);
		return;
	}
	if (s->falls_back) {
		s->falls_back = false;
		start_freeze(s);
	} else {
		back_to_running(s);
	}
}

static void start_thaw(struct sandbox *s)
{
	struct err err;

	if (s->freeze_ask == 0 && ask(s, MSG_THAW, on_thawed, &err) < 0)
		tell_both(s, &err);
}

void wake_thaw(struct sandbox *s)
{
	start_thaw(s);
}

static int has_ended(const struct sandbox *s, struct err *err)
{
	return err_set(err, ERR_GONE, 0, "sandbox %s has ended (%s): %s", s->id,
	               end_cause_name(s->end.cause), s->end.message);
}

int sandbox_pause(struct sandbox *s, sandbox_done_fn done, void *arg, struct err *err)
{
	int r;

	switch (s->state) {
	case SANDBOX_CREATING:
		return err_set(err, ERR_CONFLICT, 0, "sandbox %s is still being created", s->id);
	case SANDBOX_RUNNING:
		break;
	case SANDBOX_PAUSING:
		r = s->freeze_ask == 0 && !s->is_saving && !s->is_unsaved && !s->paused_in[0]
		            ? ask(s, MSG_FREEZE, on_frozen, err)
		            : 0;
		if (r < 0)
			return r;
		sandbox_wait(&s->pausers, done, arg);
		return 0;
	case SANDBOX_PAUSED:
		sandbox_tell(s->fleet, done, arg, s, NULL);
		return 0;
	case SANDBOX_STOPPING:
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
	case SANDBOX_STATE_COUNT:
		return has_ended(s, err);
	}
	r = ask(s, MSG_FREEZE, on_frozen, err);
	if (r < 0)
		return r;
	clocks_hold(s);
	sandbox_move(s, SANDBOX_PAUSING);
	sandbox_note(s);
	sandbox_wait(&s->pausers, done, arg);
	return 0;
}

int sandbox_stop(struct sandbox *s, sandbox_done_fn done, void *arg, struct err *err)
{
	if (!sandbox_is_alive(s)) {
		if (!s->is_kept)
			return has_ended(s, err);
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

int wake_check_start(struct sandbox *s, struct err *err)
{
	int r = create_check_room(s->fleet, err);

	if (r == 0) /* they may have come down while it was at rest */
		r = ceiling_check(s->fleet, s->project_id, s->key_id, &s->limits, s->timeout_ms,
		                  err);
	if (r == 0)
		r = volume_mounts_check(s->fleet, s->project_id, s->volumes, err);
	return r < 0 ? r : account_admit_resume(s, err);
}

static void start_again(struct sandbox *s)
{
	struct err err;
	int r;

	sandbox_move(s, SANDBOX_CREATING);
	fleet_on_revived(s->fleet, s);
	create_await(s);
	s->resumes++;
	s->end.at_us = 0;
	s->end.cause = END_NONE;
	s->oom_kills = s->pids_refused = 0; /* its cgroups are new */
	clocks_begin(s);
	r = sandbox_save(s, &err);
	if (r == 0)
		r = create_ask(s, &err);
	if (r < 0)
		create_fail(s, &err); /* ends where it was, and tells the callers */
}

int sandbox_resume(struct sandbox *s, sandbox_done_fn done, void *arg, struct err *err)
{
	int r = 0;

	switch (s->state) {
	case SANDBOX_RUNNING:
		sandbox_touch(s);
		sandbox_tell(s->fleet, done, arg, s, NULL);
		return 0;
	case SANDBOX_CREATING:
		break;
	case SANDBOX_PAUSING: /* what it waits for goes on from there, unless that failed */
	case SANDBOX_PAUSED:
		sandbox_wait(&s->callers, done, arg);
		if (s->state == SANDBOX_PAUSED && s->paused_in[0])
			pause_wake(s);
		else if (!s->is_saving && !s->is_unsaved && !s->paused_in[0])
			start_thaw(s);
		return 0;
	case SANDBOX_STOPPING: /* wake_on_ended() goes on from there */
		if (!s->is_kept)
			return has_ended(s, err);
		break;
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
	case SANDBOX_STATE_COUNT:
		r = s->is_kept ? wake_check_start(s, err) : has_ended(s, err);
		if (r < 0)
			return r;
		sandbox_wait(&s->callers, done, arg);
		start_again(s);
		return 0;
	}
	sandbox_wait(&s->callers, done, arg);
	return 0;
}

bool sandbox_is_resting(const struct sandbox *s)
{
	return s->state == SANDBOX_PAUSING || s->state == SANDBOX_PAUSED ||
	       (s->is_kept && (s->state == SANDBOX_STOPPING || !sandbox_is_alive(s)));
}

bool sandbox_wakes_by_call(const struct sandbox *s)
{
	if (s->state == SANDBOX_PAUSING || s->state == SANDBOX_PAUSED)
		return s->auto_resumes || s->is_saving || s->paused_in[0] ||
		       s->pause_cause == END_IDLE;
	return sandbox_is_resting(s) || (s->state == SANDBOX_CREATING && s->resumes > 0);
}

void wake_on_ended(struct sandbox *s)
{
	struct err err;

	if (list_empty(&s->callers) && !s->rolls_to[0])
		return;
	if ((s->is_kept ? wake_check_start(s, &err) : has_ended(s, &err)) < 0)
		sandbox_tell_all(s, &s->callers, &err);
	else
		start_again(s);
}

void wake_rejoin(struct sandbox *s)
{
	struct err err;
	int r = 0;

	if (s->state == SANDBOX_PAUSED) {
		r = ask(s, MSG_FREEZE, on_frozen, &err);
	} else if (s->state == SANDBOX_PAUSING) {
		(void)err_set(&s->create_err, ERR_CONFLICT, 0,
		              "the daemon was restarted while sandbox %s was being paused", s->id);
		(void)err_hint(&s->create_err, "it goes on; ask again");
		r = ask(s, MSG_THAW, on_thawed, &err);
	}
	if (r < 0)
		log_error("sandbox.unpaused", "id=%s error='%s'", s->id, err.message);
}

void wake_cancel(struct sandbox *s, const struct err *err)
{
	broker_client_cancel(s->fleet->broker, s->freeze_ask);
	s->freeze_ask = 0;
	sandbox_tell_all(s, &s->pausers, err);
	if (!s->is_undone)
		create_tell(s, err);
}
