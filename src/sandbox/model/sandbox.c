// SPDX-License-Identifier: Apache-2.0
/*
 * What all folders need of a sandbox: its state and what that allows, who waits for it, its link
 * and channels. The moves between states are in lifecycle/.
 */
#include "sandbox/model/sandbox_private.h"

#include <assert.h>

#define FENCED_RETRY_MS 2000 /* a beat */

static const char *const state_names[] = {
	[SANDBOX_CREATING] = "creating", [SANDBOX_RUNNING] = "running",
	[SANDBOX_PAUSING] = "pausing",   [SANDBOX_PAUSED] = "paused",
	[SANDBOX_STOPPING] = "stopping", [SANDBOX_STOPPED] = "stopped",
	[SANDBOX_FAILED] = "failed",
};
static_assert(ARRAY_SIZE(state_names) == SANDBOX_STATE_COUNT, "a state has no name");

struct waiter {
	struct list link;
	sandbox_done_fn fn;
	void *arg;
};

struct news { /* for a caller, from the loop */
	sandbox_done_fn fn;
	void *arg;
	struct sandbox *s;
	struct err err;
};

const char *sandbox_state_name(enum sandbox_state state)
{
	return state_names[state];
}

static void tell_now(struct loop *loop, void *arg)
{
	struct news *news = arg;

	(void)loop;
	news->fn(news->s, news->s ? NULL : &news->err, news->arg);
	free(news);
}

/* s is freed at the end of a turn at the earliest, after these calls. */
void sandbox_tell(struct fleet *fleet, sandbox_done_fn fn, void *arg, struct sandbox *s,
                  const struct err *err)
{
	struct news *news;

	if (!fn)
		return;
	news = xnew0(struct news);
	*news = (struct news){.fn = fn, .arg = arg, .s = s};
	if (err)
		news->err = *err;
	loop_defer(fleet->config.loop, tell_now, news);
}

void sandbox_wait(struct list *waiters, sandbox_done_fn fn, void *arg)
{
	struct waiter *w = xnew0(struct waiter);

	*w = (struct waiter){.fn = fn, .arg = arg};
	list_append(waiters, &w->link);
}

void sandbox_tell_all(struct sandbox *s, struct list *waiters, const struct err *err)
{
	struct waiter *w;

	while ((w = list_first(waiters, struct waiter, link))) {
		sandbox_tell(s->fleet, w->fn, w->arg, err ? NULL : s, err);
		list_remove(&w->link);
		free(w);
	}
}

void sandbox_drop_waiters(struct list *waiters)
{
	struct waiter *w;

	while ((w = list_first(waiters, struct waiter, link))) {
		list_remove(&w->link);
		free(w);
	}
}

bool sandbox_is_alive(const struct sandbox *s)
{
	return s->state != SANDBOX_STOPPED && s->state != SANDBOX_FAILED;
}

int sandbox_check_files(const struct sandbox *s, struct err *err)
{
	switch (s->state) {
	case SANDBOX_RUNNING:
	case SANDBOX_PAUSING:
	case SANDBOX_PAUSED:
		return 0;
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
		if (s->is_kept && s->outlive.origin[0]) {
			(void)err_set(err, ERR_CONFLICT, 0,
			              "sandbox %s was restored, and its files are not here yet",
			              s->id);
			return err_hint(err, "resume it first");
		}
		if (s->is_kept)
			return 0;
		return err_set(err, ERR_GONE, 0, "sandbox %s has ended, and its files with it",
		               s->id);
	case SANDBOX_CREATING:
	case SANDBOX_STOPPING:
	case SANDBOX_STATE_COUNT:
		break;
	}
	return err_set(err, ERR_CONFLICT, 0, "sandbox %s is %s", s->id,
	               sandbox_state_name(s->state));
}

bool pause_is_on_disk(const struct sandbox *s)
{
	return s->phase == PHASE_PUTTING_AWAY || s->phase == PHASE_ON_DISK;
}

bool sandbox_has_guest(const struct sandbox *s)
{
	return s->link && !s->paused_in[0];
}

bool sandbox_is_durable(const struct sandbox *s)
{
	return s->is_persistent || s->paused_in[0];
}

void sandbox_touch(struct sandbox *s)
{
	s->active_us = loop_now_us(s->fleet->config.loop);
}

struct share *sandbox_share(const struct sandbox *s)
{
	return shares_get(s->fleet->config.shares, s->project_id);
}

int sandbox_ask(struct sandbox *s, enum msg_op op, broker_client_fn fn, struct err *err)
{
	struct msg_request req = {.op = op};

	broker_client_cancel(s->fleet->broker, s->ask);
	memcpy(req.id, s->id, sizeof(req.id));
	return broker_client_ask_for(s->fleet->broker, sandbox_share(s), &req, fn, s, &s->ask, err);
}

int sandbox_check_fence(const struct sandbox *s, struct err *err)
{
	if (!s->outlive.is_closed)
		return 0;
	(void)err_set(err, ERR_FENCED, 0,
	              "sandbox %s stands still: its node is cut off from the cluster's database, "
	              "and another node may run it",
	              s->id);
	if (err)
		err->quota.retry_after_ms = FENCED_RETRY_MS;
	return err_hint(err, "try again in a few seconds, or ask another node");
}

struct link *sandbox_link(struct sandbox *s, struct err *err)
{
	if (sandbox_check_fence(s, err) < 0)
		return NULL;
	switch (s->state) {
	case SANDBOX_CREATING:
		if (s->spare) /* its interpreters start on it */
			break;
		(void)err_set(err, ERR_CONFLICT, 0, "sandbox %s is still being created", s->id);
		return NULL;
	case SANDBOX_PAUSING:
	case SANDBOX_PAUSED:
		(void)err_set(err, ERR_CONFLICT, 0, "sandbox %s is paused", s->id);
		(void)err_hint(err, "resume it first, or set its auto_resume");
		return NULL;
	case SANDBOX_STOPPING:
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
		(void)sandbox_has_ended(s, err);
		return NULL;
	case SANDBOX_STATE_COUNT:
	case SANDBOX_RUNNING:
		break;
	}
	if (link_is_healthy(s->link))
		return s->link;
	(void)err_set(err, ERR_UNAVAILABLE, 0, "the agent of sandbox %s does not answer", s->id);
	(void)err_hint(err, "try again in a moment, or delete the sandbox");
	return NULL;
}

void sandbox_disturb(struct sandbox *s)
{
	void (*const on_disturbed)(void *arg) = s->on_disturbed;

	s->on_disturbed = NULL;
	if (on_disturbed)
		on_disturbed(s->disturbed_arg);
}

int sandbox_take_channel(struct sandbox *s, uint32_t *ret, struct err *err)
{
	sandbox_disturb(s);
	if (s->next_channel == s->channels_to) {
		int r;

		if (s->channels_to > UINT32_MAX - CHANNEL_BLOCK)
			return err_set(err, ERR_LIMIT, 0,
			               "sandbox %s has had all the execs and file operations that "
			               "it can have",
			               s->id);
		s->channels_to += CHANNEL_BLOCK;
		r = s->fleet->lifecycle->save(s, err);
		if (r < 0) {
			s->channels_to -= CHANNEL_BLOCK;
			return r;
		}
	}
	*ret = s->next_channel++;
	return 0;
}

const char *sandbox_id(const struct sandbox *s)
{
	return s->id;
}

enum sandbox_state sandbox_state(const struct sandbox *s)
{
	return s->state;
}

const char *sandbox_user(const struct sandbox *s)
{
	return s->user ? s->user : "";
}

const char *sandbox_cwd(const struct sandbox *s)
{
	return s->cwd ? s->cwd : "";
}

const char *sandbox_project_id(const struct sandbox *s)
{
	return s->project_id;
}

const char *sandbox_key_id(const struct sandbox *s)
{
	return s->key_id;
}

uint32_t sandbox_engine(const struct sandbox *s)
{
	return s->engine;
}

struct fleet *sandbox_fleet(const struct sandbox *s)
{
	return s->fleet;
}

int sandbox_has_ended(const struct sandbox *s, struct err *err)
{
	return err_set(err, ERR_GONE, 0, "sandbox %s has ended (%s): %s", s->id,
	               end_cause_name(s->end.cause), s->end.message);
}
