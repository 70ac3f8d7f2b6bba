// SPDX-License-Identifier: Apache-2.0
/*
 * A stopped persistent sandbox is resumed by a create over its kept layer: same id, name,
 * environment, limits and tags; its processes are new. All requests for it wait in `callers`, in
 * any state, so any number of calls make one start. A call to one that runs, but whose connection
 * to the agent was lost and is being made again, waits there too.
 */
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/lifecycle/restorable.h"
#include "sandbox/model/ceiling.h"
#include "sandbox/model/registry.h"
#include "sandbox/storage/storage.h"
#include "sandbox/usage/account.h"

int resume_check(struct sandbox *s, struct err *err)
{
	int r = sandbox_check_fence(s, err);

	if (r == 0)
		r = create_check_room(s->fleet, err);
	if (r == 0) /* they may have come down while it was at rest */
		r = ceiling_check(s->fleet, s->project_id, s->key_id, &s->limits, s->timeout_ms,
		                  err);
	if (r == 0)
		r = volume_mounts_check(s->fleet, s->project_id, s->volumes, err);
	return r < 0 ? r : account_admit_resume(s, err);
}

void resume_go_on(struct sandbox *s)
{
	if (restorable_bring(s))
		return;
	s->end.at_us = 0;
	s->end.cause = END_NONE;
	clocks_await(s);
	create_again(s, PHASE_STARTING);
}

int sandbox_resume(struct sandbox *s, sandbox_done_fn done, void *arg, struct err *err)
{
	int r = 0;

	switch (s->state) {
	case SANDBOX_RUNNING:
		if (!link_is_up(s->link))
			break;
		sandbox_touch(s);
		sandbox_tell(s->fleet, done, arg, s, NULL);
		return 0;
	case SANDBOX_CREATING:
		break;
	case SANDBOX_PAUSING: /* what it waits for goes on from there, unless that failed */
	case SANDBOX_PAUSED:
		sandbox_wait(&s->callers, done, arg);
		if (s->phase == PHASE_ON_DISK)
			pause_wake(s, PHASE_WAKING);
		else if (s->phase == PHASE_FROZEN || s->phase == PHASE_HALF_PAUSED)
			pause_thaw(s);
		return 0;
	case SANDBOX_STOPPING: /* resume_on_ended() goes on from there */
		if (!s->is_kept)
			return sandbox_has_ended(s, err);
		break;
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
	case SANDBOX_STATE_COUNT:
		r = s->is_kept ? resume_check(s, err) : sandbox_has_ended(s, err);
		if (r < 0)
			return r;
		sandbox_wait(&s->callers, done, arg);
		resume_go_on(s);
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
		return s->auto_resumes || s->phase == PHASE_SAVING || pause_is_on_disk(s) ||
		       s->pause_cause == END_IDLE;
	if (s->state == SANDBOX_RUNNING)
		return !link_is_up(s->link);
	return sandbox_is_resting(s) || (s->state == SANDBOX_CREATING && s->resumes > 0);
}

void resume_on_ended(struct sandbox *s)
{
	struct err err;

	if (list_empty(&s->callers) && !s->rolls_to[0])
		return;
	if ((s->is_kept ? resume_check(s, &err) : sandbox_has_ended(s, &err)) < 0)
		sandbox_tell_all(s, &s->callers, &err);
	else
		resume_go_on(s);
}
