// SPDX-License-Identifier: Apache-2.0
/*
 * A pause in memory is MSG_FREEZE: every process but the agent is frozen. The row says "pausing"
 * before and "paused" after it, and "running" only after MSG_THAW was answered. So a restart asks
 * the broker once more: an unfinished pause is undone, and a paused sandbox is frozen again. If a
 * pause fails, its caller is told when the sandbox runs again.
 */
#include "base/log.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/ceiling.h"
#include "sandbox/network/network.h"
#include "sandbox/usage/account.h"

static int ask(struct sandbox *s, enum msg_op op, broker_client_fn fn, struct err *err)
{
	struct msg_request req = {.op = op};

	memcpy(req.id, s->id, sizeof(req.id));
	return broker_client_ask(s->fleet->broker, &req, fn, s, &s->freeze_ask, err);
}

static void back_to_running(struct sandbox *s)
{
	s->pause_cause = END_NONE;
	sandbox_move(s, PHASE_RUNNING);
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

static void on_frozen(const struct msg_reply *reply, void *arg)
{
	struct sandbox *s = arg;
	const bool is_new = s->phase == PHASE_FREEZING;

	s->freeze_ask = 0;
	if (reply->err.code != ERR_NONE) {
		log_warn("sandbox.not_paused", "id=%s error='%s'", s->id, reply->err.message);
		s->create_err = reply->err;
	}
	if (reply->err.code != ERR_NONE && is_new) { /* it may be frozen all the same, or in part */
		pause_thaw(s);
		return;
	}
	sandbox_move(s, PHASE_FROZEN);
	if (is_new)
		sandbox_note(s);
	sandbox_tell_all(s, &s->pausers, NULL);
	if (!list_empty(&s->callers))
		pause_thaw(s);
}

static int freeze(struct sandbox *s, struct err *err)
{
	int r = ask(s, MSG_FREEZE, on_frozen, err);

	if (r == 0)
		sandbox_move(s, s->state == SANDBOX_PAUSED ? PHASE_REFREEZING : PHASE_FREEZING);
	return r;
}

/* No request is under way for it; the next call asks again. */
static void rest_between(struct sandbox *s)
{
	const enum sandbox_phase at = s->state == SANDBOX_PAUSED ? PHASE_FROZEN : PHASE_HALF_PAUSED;

	if (s->phase != at)
		sandbox_move(s, at);
}

static void on_thawed(const struct msg_reply *reply, void *arg)
{
	struct sandbox *s = arg;
	struct err err;

	s->freeze_ask = 0;
	if (reply->err.code != ERR_NONE) {
		log_warn("sandbox.not_resumed", "id=%s error='%s'", s->id, reply->err.message);
		s->falls_back = false;
		sandbox_tell_all(s, &s->callers, &reply->err);
		if (s->phase == PHASE_THAWING && reply->err.code != ERR_UNAVAILABLE) {
			back_to_running(s); /* a host that cannot freeze has nothing to thaw */
			return;
		}
		rest_between(s);
		sandbox_tell_all(s, &s->pausers, &reply->err);
		return;
	}
	if (!s->falls_back) {
		back_to_running(s);
		return;
	}
	s->falls_back = false;
	if (freeze(s, &err) < 0) {
		rest_between(s);
		sandbox_tell_all(s, &s->pausers, &err);
	}
}

void pause_thaw(struct sandbox *s)
{
	struct err err;

	if (ask(s, MSG_THAW, on_thawed, &err) < 0) {
		rest_between(s);
		tell_both(s, &err);
		return;
	}
	sandbox_move(s, s->state == SANDBOX_PAUSED ? PHASE_RESUMING : PHASE_THAWING);
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
		r = s->phase == PHASE_HALF_PAUSED ? freeze(s, err) : 0;
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
		return sandbox_has_ended(s, err);
	}
	r = ask(s, MSG_FREEZE, on_frozen, err);
	if (r < 0)
		return r;
	clocks_hold(s);
	sandbox_move(s, PHASE_FREEZING);
	sandbox_note(s);
	sandbox_wait(&s->pausers, done, arg);
	return 0;
}

void pause_rejoin(struct sandbox *s)
{
	struct err err;
	int r = 0;

	if (s->phase == PHASE_FROZEN) {
		r = freeze(s, &err);
	} else if (s->phase == PHASE_HALF_PAUSED) {
		(void)err_set(&s->create_err, ERR_CONFLICT, 0,
		              "the daemon was restarted while sandbox %s was being paused", s->id);
		(void)err_hint(&s->create_err, "it goes on; ask again");
		pause_thaw(s);
	}
	if (r < 0)
		log_error("sandbox.not_paused", "id=%s error='%s'", s->id, err.message);
}

void pause_cancel(struct sandbox *s)
{
	struct err err;

	broker_client_cancel(s->fleet->broker, s->freeze_ask);
	s->freeze_ask = 0;
	(void)sandbox_has_ended(s, &err);
	sandbox_tell_all(s, &s->pausers, &err);
	if (s->phase != PHASE_UNDOING)
		create_tell(s, &err);
}

void pause_done(struct sandbox *s)
{
	broker_client_cancel(s->fleet->broker, s->freeze_ask);
	sandbox_drop_waiters(&s->pausers);
}
