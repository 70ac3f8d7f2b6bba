// SPDX-License-Identifier: Apache-2.0
/*
 * Changing a sandbox while it runs. The broker's word on new limits comes first; the rest follows
 * only if it said yes, so that a change is made as a whole or not at all.
 */
#include "base/clock.h"
#include "sandbox/account.h"

#define MILLISECONDS UINT64_C(1000)

struct update { /* waits for the broker's word on new limits */
	struct fleet *fleet;
	char id[ID_SIZE]; /* the sandbox may be forgotten meanwhile */
	json_t *tags;
	bool has_timeout;
	uint64_t timeout_ms;
	struct guest_limits limits;
	sandbox_done_fn done;
	void *arg;
};

static void update_free(struct update *u)
{
	json_decref(u->tags);
	free(u);
}

static void apply(struct sandbox *s, struct update *u)
{
	if (u->tags) {
		json_decref(s->tags);
		s->tags = take_ptr(u->tags);
	}
	if (u->has_timeout) {
		s->timeout_ms = u->timeout_ms;
		s->expires_us = u->timeout_ms ? clock_wall_us() + u->timeout_ms * MILLISECONDS : 0;
		sandbox_set_lifetime(s);
	}
	s->limits = u->limits;
	sandbox_note(s);
	emit_changed(s);
	sandbox_tell(s->fleet, u->done, u->arg, s, NULL);
}

static void on_limits_reply(const struct msg_reply *reply, int fd, void *arg)
{
	struct update *u = arg;
	struct sandbox *s = fleet_find_id(u->fleet, u->id);
	struct err err = reply->err;

	if (fd >= 0)
		(void)close(fd);
	if (err.code == ERR_NONE && (!s || s->state != SANDBOX_RUNNING))
		(void)err_set(&err, ERR_GONE, 0, "sandbox %s has ended", u->id);
	if (err.code == ERR_NONE)
		apply(s, u);
	if (s)
		account_on_limits(s);
	if (err.code != ERR_NONE)
		sandbox_tell(u->fleet, u->done, u->arg, NULL, &err);
	update_free(u);
}

static int check_patch(struct sandbox *s, const struct sandbox_patch *patch,
                       struct guest_limits *ret, struct err *err)
{
	int r = spec_check_tags(patch->tags, err);

	if (r < 0)
		return r;
	if (patch->has_timeout) {
		r = spec_timeout(s->fleet, patch->timeout_ms, err);
		if (r < 0)
			return r;
	}
	*ret = s->limits;
	return patch->has_limits ? spec_limits(s->fleet, &patch->limits, &s->limits, ret, err) : 0;
}

int sandbox_update(struct sandbox *s, const struct sandbox_patch *patch, sandbox_done_fn done,
                   void *arg, struct err *err)
{
	struct msg_request req = {.op = MSG_LIMITS};
	struct guest_limits limits;
	struct update *u;
	int r;

	if (s->state == SANDBOX_CREATING)
		return err_set(err, ERR_CONFLICT, 0, "sandbox %s is still being created", s->id);
	if (s->state != SANDBOX_RUNNING)
		return err_set(err, ERR_GONE, 0, "sandbox %s has ended (%s)", s->id,
		               end_cause_name(s->end.cause));
	r = check_patch(s, patch, &limits, err);
	if (r < 0)
		return r;
	u = xnew0(struct update);
	*u = (struct update){.fleet = s->fleet,
	                     .tags = patch->tags ? json_deep_copy(patch->tags) : NULL,
	                     .has_timeout = patch->has_timeout,
	                     .timeout_ms = patch->timeout_ms,
	                     .limits = limits,
	                     .done = done,
	                     .arg = arg};
	memcpy(u->id, s->id, sizeof(u->id));
	if (!patch->has_limits) {
		apply(s, u);
		update_free(u);
		return 0;
	}
	memcpy(req.id, s->id, sizeof(req.id));
	req.limits = limits;
	r = account_admit_limits(s, &limits, err);
	if (r == 0) {
		r = host_ask(s->fleet->host, &req, on_limits_reply, u, NULL, err);
		if (r < 0)
			account_on_limits(s);
	}
	if (r < 0)
		update_free(u);
	return r;
}
