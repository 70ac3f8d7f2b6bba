// SPDX-License-Identifier: Apache-2.0
/*
 * Changes a sandbox. New limits are sent to the broker first; the rest follows only if it accepts
 * them, so that a change is made as a whole or not at all. A sandbox that does not run gets its new
 * limits when it is resumed.
 */
#include "node/node.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/ceiling.h"
#include "sandbox/model/create_rules.h"
#include "sandbox/model/registry.h"
#include "sandbox/model/sandbox_events.h"
#include "sandbox/usage/account.h"

struct update { /* waits for the broker's word on new limits */
	struct fleet *fleet;
	char id[ID_SIZE]; /* the sandbox may be forgotten meanwhile */
	char *name;       /* or NULL */
	json_t *tags, *env;
	struct sandbox_patch patch; /* without what it borrows */
	enum timeout_action on_timeout, on_idle;
	struct guest_limits limits;
	sandbox_done_fn done;
	void *arg;
};

static void update_free(struct update *u)
{
	free(u->name);
	json_decref(u->tags);
	json_decref(u->env);
	free(u);
}

static void replace(json_t **at, json_t **with)
{
	if (!*with)
		return;
	json_decref(*at);
	*at = take_ptr(*with);
}

static void apply(struct sandbox *s, struct update *u)
{
	replace(&s->tags, &u->tags);
	replace(&s->env, &u->env);
	if (u->name && strcmp(u->name, s->name) != 0)
		fleet_rename(s->fleet, s, u->name);
	s->limits = u->limits;
	if (u->patch.exec_limits.output_bytes)
		s->exec_limits.output_bytes = u->patch.exec_limits.output_bytes;
	if (u->patch.exec_limits.execs)
		s->exec_limits.execs = u->patch.exec_limits.execs;
	s->on_timeout = u->on_timeout;
	s->on_idle = u->on_idle;
	if (u->patch.has_auto_resume)
		s->auto_resumes = u->patch.auto_resumes;
	if (u->patch.has_counts_paused)
		s->counts_paused = u->patch.counts_paused;
	if (u->patch.has_idle_timeout)
		s->idle_timeout_ms = u->patch.idle_timeout_ms;
	if (u->patch.has_timeout)
		s->timeout_ms = u->patch.timeout_ms;
	clocks_update(s, u->patch.has_timeout);
	sandbox_note(s);
	emit_changed(s, "settings");
	sandbox_tell(s->fleet, u->done, u->arg, s, NULL);
}

static bool can_change(const struct sandbox *s)
{
	return s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED || s->place == PLACE_KEPT;
}

static void on_limits_reply(const struct msg_reply *reply, void *arg)
{
	struct update *u = arg;
	struct sandbox *s = fleet_find_id(u->fleet, u->id);
	struct err err = reply->err;

	if (err.code == ERR_NONE && (!s || !can_change(s)))
		(void)err_set(&err, ERR_GONE, 0, "sandbox %s has ended", u->id);
	if (err.code == ERR_NONE)
		apply(s, u);
	if (s)
		account_on_limits(s);
	if (err.code != ERR_NONE)
		sandbox_tell(u->fleet, u->done, u->arg, NULL, &err);
	update_free(u);
}

static int check_name(struct sandbox *s, const char *name, struct err *err)
{
	int r;

	if (!name || name[0] == '\0' || strcmp(name, s->name) == 0)
		return 0;
	r = rules_check_name(name, err);
	if (r == 0 && node_is_in(s->fleet->config.node)) {
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "name: a sandbox keeps its name in a cluster");
		return err_hint(err, "make another sandbox with that name");
	}
	if (r == 0 && fleet_has_name(s->fleet, s->project_id, name))
		r = err_set(err, ERR_CONFLICT, 0, "name: a sandbox named '%s' exists already",
		            name);
	return r;
}

static int check_patch(struct sandbox *s, const struct sandbox_patch *patch, struct update *u,
                       struct err *err)
{
	int r = rules_check_tags(patch->tags, err);

	if (r == 0)
		r = rules_check_env(patch->env, err);
	if (r == 0)
		r = check_name(s, patch->name, err);
	if (r == 0 && patch->has_timeout)
		r = rules_timeout(s->fleet, patch->timeout_ms, err);
	if (r == 0 && patch->has_idle_timeout)
		r = rules_idle_timeout(patch->idle_timeout_ms, err);
	u->on_timeout = s->on_timeout;
	if (r == 0 && patch->on_timeout)
		r = rules_on_timeout(patch->on_timeout, s->is_persistent, &u->on_timeout, err);
	u->on_idle = s->on_idle;
	if (r == 0 && patch->on_idle)
		r = rules_on_idle(patch->on_idle, &u->on_idle, err);
	u->limits = s->limits;
	if (r == 0 && patch->has_limits)
		r = rules_limits(s->fleet, &patch->limits, &s->limits, &u->limits, err);
	if (r == 0)
		r = rules_exec_limits(s->fleet, s->project_id, s->key_id, &patch->exec_limits, err);
	if (r == 0)
		r = ceiling_check(s->fleet, s->project_id, s->key_id, &patch->limits,
		                  patch->timeout_ms, err);
	if (r == 0 && sandbox_is_alive(s))
		r = rules_fixed_limits(&s->limits, &u->limits, err);
	if (r == 0 && engine_traits(s->engine)->has_own_disk && s->place == PLACE_KEPT &&
	    (u->limits.disk_bytes != s->limits.disk_bytes ||
	     u->limits.inodes != s->limits.inodes)) {
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "limits: the disk of a %s has the size that it was made with",
		              engine_name(s->engine));
		r = err_hint(err, "create another one with these limits");
	}
	return r;
}

static int check_state(const struct sandbox *s, struct err *err)
{
	if (can_change(s))
		return 0;
	if (s->state == SANDBOX_CREATING || s->state == SANDBOX_PAUSING)
		return err_set(err, ERR_CONFLICT, 0, "sandbox %s is %s: try again in a moment",
		               s->id, sandbox_state_name(s->state));
	return err_set(err, ERR_GONE, 0, "sandbox %s has ended (%s)", s->id,
	               end_cause_name(s->end.cause));
}

int sandbox_update(struct sandbox *s, const struct sandbox_patch *patch, sandbox_done_fn done,
                   void *arg, struct err *err)
{
	struct msg_request req = {.op = MSG_LIMITS};
	struct update *u;
	int r = check_state(s, err);

	if (r < 0)
		return r;
	sandbox_disturb(s);
	u = xnew0(struct update);
	r = check_patch(s, patch, u, err);
	if (r < 0) {
		update_free(u);
		return r;
	}
	u->fleet = s->fleet;
	memcpy(u->id, s->id, sizeof(u->id));
	u->name = patch->name ? xstrdup(patch->name) : NULL;
	u->tags = patch->tags ? json_deep_copy(patch->tags) : NULL;
	u->env = patch->env ? json_deep_copy(patch->env) : NULL;
	u->patch = *patch;
	u->done = done;
	u->arg = arg;
	sandbox_touch(s);
	if (!patch->has_limits || s->place == PLACE_KEPT) {
		apply(s, u);
		update_free(u);
		return 0;
	}
	memcpy(req.id, s->id, sizeof(req.id));
	req.limits = u->limits;
	r = account_admit_limits(s, &u->limits, err);
	if (r == 0) {
		r = broker_client_ask(s->fleet->broker, &req, on_limits_reply, u, NULL, err);
		if (r < 0)
			account_on_limits(s);
	}
	if (r < 0)
		update_free(u);
	return r;
}
