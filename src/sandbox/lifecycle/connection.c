// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox between its create (create.c) and its end (end.c): its object in memory, its moves, and
 * the connection to its agent.
 *
 * A connection that is lost without a protocol error is made again a few times: the agent may have
 * dropped it for a newer one, or the broker may be about to report the agent dead.
 */
#include "base/log.h"
#include "base/units.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/lifecycle/restorable.h"
#include "sandbox/lifecycle/results.h"
#include "sandbox/model/owner.h"
#include "sandbox/model/registry.h"
#include "sandbox/model/sandbox_events.h"
#include "sandbox/network/network.h"
#include "sandbox/snapshot/snapshots.h"
#include "sandbox/usage/account.h"
#include "telemetry/span.h"

#define RECONNECT_US      (50 * MILLISECOND_US) /* doubled each time */
#define RECONNECTS_MAX    5                     /* within RECONNECT_SPAN_US, then it is given up */
#define RECONNECT_SPAN_US (60 * SECOND_US)

static const struct link_ops link_ops;

void sandbox_move(struct sandbox *s, enum sandbox_phase next)
{
	const enum sandbox_state from = s->state, to = phase_state(next);
	const char *why = phase_move(s->phase, next);

	if (!why) {
		log_error("sandbox.unexpected_move", "id=%s from=%s to=%s", s->id,
		          phase_name(s->phase), phase_name(next));
		s->fleet->counts.stray_moves++;
	}
	log_debug("sandbox.phase", "id=%s from=%s to=%s why='%s'", s->id, phase_name(s->phase),
	          phase_name(next), why ? why : "");
	s->phase = next;
	if (to == from)
		return;
	sandbox_disturb(s);
	log_info("sandbox.moved", "id=%s from=%s to=%s", s->id, sandbox_state_name(from),
	         sandbox_state_name(to));
	account_on_move(s, to);
	s->state = to;
	if (s->spare)
		return;
	if (to == SANDBOX_RUNNING)
		owner_tell(s);
	emit_moved(s, from);
	if (to == SANDBOX_RUNNING)
		restorable_look(s);
}

static int save(void *arg, struct err *err)
{
	return sandbox_save(arg, err);
}

/* If this fails, the next start finds the older row, and compares it with what the broker has. */
void sandbox_note(struct sandbox *s)
{
	struct err err;

	if (s->spare)
		return; /* a spare has no row */
	if (event_log_save(s->fleet->config.events, save, s, &err) < 0)
		log_error("sandbox.row_not_saved", "id=%s error='%s'", s->id, err.message);
}

void sandbox_forget(struct sandbox *s)
{
	struct err err;

	exec_remove_all(s);
	results_drop(s);
	if (store_delete_sandbox(s->fleet->config.store, s->id, &err) < 0)
		log_error("sandbox.row_not_saved", "id=%s error='%s'", s->id, err.message);
	sandbox_discard(s);
}

void sandbox_begin(struct sandbox *s)
{
	sandbox_move(s, PHASE_RUNNING);
	if (s->is_persistent && s->resumes == 0)
		durable_on_create(s);
	else if (s->is_persistent && s->rolls_to[0])
		durable_on_layer(s->fleet);
	parts_on_running(s);
	sandbox_note(s);
	link_go_on(s->link);
	create_tell(s, NULL);
}

static void on_link_up(void *arg)
{
	struct sandbox *s = arg;

	if (s->state != SANDBOX_CREATING) {
		log_info("sandbox.rejoined", "id=%s", s->id);
		if (s->is_rejoining)
			emit_adopted(s);
		if (!network_is_settled(s))
			network_apply(s, NULL, NULL);
		s->fleet->on_rejoined(s);
		if (s->state == SANDBOX_RUNNING)
			sandbox_tell_all(s, &s->callers, NULL);
		pause_on_link(s);
		results_on_link(s);
	} else if (s->spare) {
		s->fleet->spares->on_up(s);
	} else {
		span_part(s->span, "agent");
		life_next(s);
	}
}

static void on_connect_reply(const struct msg_reply *reply, int *fds, void *arg);

static void connect_now(struct loop *loop, void *arg)
{
	struct sandbox *s = arg;
	struct msg_request req = {.op = MSG_CONNECT};
	struct err err;

	(void)loop;
	broker_client_cancel(s->fleet->broker, s->ask);
	memcpy(req.id, s->id, sizeof(req.id));
	/* Without a broker this gateway exits, and the next one finds the sandbox as it is. */
	if (broker_client_ask_fds(s->fleet->broker, sandbox_share(s), &req, on_connect_reply, s,
	                          &s->ask, &err) < 0 &&
	    !broker_client_is_gone(s->fleet->broker))
		sandbox_end(s, END_GUEST_CRASH, NULL, err.message);
}

static void connect_again(struct sandbox *s, const char *why)
{
	uint64_t now = loop_now_us(s->fleet->config.loop);
	struct err err;

	if (s->phase == PHASE_SAVING ||
	    pause_is_on_disk(s)) /* its agent has let go, as it was told to */
		return;
	if (snapshot_saves_memory(s)) { /* for a moment */
		loop_timer_set_in(s->reconnect, RECONNECT_US);
		return;
	}
	if (now - s->reconnects_since_us > RECONNECT_SPAN_US) {
		s->reconnects_since_us = now;
		s->reconnects = 0;
	}
	if (s->reconnects >= RECONNECTS_MAX && s->state == SANDBOX_CREATING) {
		(void)err_set(&err, ERR_GUEST, 0, "%s", why);
		create_fail(s, &err);
		return;
	}
	if (s->reconnects >= RECONNECTS_MAX) {
		sandbox_end(s, END_GUEST_CRASH, NULL, why);
		return;
	}
	loop_timer_set_in(s->reconnect, RECONNECT_US << s->reconnects);
	s->reconnects++;
}

static void on_connect_reply(const struct msg_reply *reply, int *fds, void *arg)
{
	struct sandbox *s = arg;

	s->ask = 0;
	if (reply->err.code == ERR_NONE && fds[0] >= 0) {
		link_attach(s->link, take_fd(&fds[0]));
		return;
	}
	connect_again(s, reply->err.message);
}

static void on_link_down(const struct err *why, bool is_hostile, void *arg)
{
	struct sandbox *s = arg;

	log_warn("sandbox.link_down", "id=%s error='%s'", s->id, why->message);
	if (s->state == SANDBOX_CREATING) {
		create_fail(s, why);
	} else if (is_hostile) {
		sandbox_end(s, END_GUEST_CRASH, NULL, why->message);
	} else {
		connect_again(s, why->message);
	}
}

static void on_link_health(bool is_healthy, void *arg)
{
	struct sandbox *s = arg;

	if (is_healthy)
		log_info("sandbox.healthy", "id=%s", s->id);
	else
		log_warn("sandbox.unhealthy", "id=%s", s->id);
}

/* A paused machine is frozen as a whole; in a jail only the programs are, and the agent goes on. */
static bool is_still(void *arg)
{
	const struct sandbox *s = arg;

	return engine_traits(s->engine)->has_own_kernel &&
	       (s->state == SANDBOX_PAUSING || s->state == SANDBOX_PAUSED || s->outlive.is_closed);
}

/* An agent on the host's kernel can be held up only by that kernel, never by programs inside. */
static void on_link_hung(void *arg)
{
	struct sandbox *s = arg;

	if (engine_traits(s->engine)->has_own_kernel)
		sandbox_end(s, END_GUEST_CRASH, json_pack("{s:s}", "machine", "hang"),
		            "its machine does not answer any more");
}

static void on_link_channels(void *arg)
{
	sandbox_touch(arg);
}

static const struct link_ops link_ops = {
	.on_up = on_link_up,
	.on_channels = on_link_channels,
	.on_down = on_link_down,
	.on_health = on_link_health,
	.is_still = is_still,
	.on_hung = on_link_hung,
};

void sandbox_set_share(struct sandbox *s)
{
	struct share *share = sandbox_share(s);

	if (s->link && share)
		link_set_share(s->link, share);
}

void sandbox_make_link(struct sandbox *s)
{
	char hostname[64];

	create_hostname(s, hostname);
	s->link = link_new(s->fleet->config.loop, hostname, s->fleet->config.timing, &link_ops, s);
	link_set_floor(s->link, s->channels_to);
	sandbox_set_share(s);
}

struct sandbox *sandbox_alloc(struct fleet *fleet)
{
	struct sandbox *s = xnew0(struct sandbox);

	s->fleet = fleet;
	s->next_channel = s->channels_to = 1;
	s->on_idle = ON_TIMEOUT_COUNT;
	list_init(&s->callers);
	list_init(&s->waiters);
	list_init(&s->pausers);
	list_init(&s->exec_list);
	list_init(&s->kept);
	list_init(&s->contexts);
	list_init(&s->port_connections);
	list_init(&s->warm);
	list_init(&s->link_all);
	list_init(&s->link_ended);
	list_init(&s->link_untold);
	list_init(&s->link_group);
	create_init(s);
	parts_init(s);
	return s;
}

void sandbox_free(struct sandbox *s)
{
	parts_free(s);
	span_drop(s->span);
	sandbox_drop_waiters(&s->callers);
	json_decref(s->tags);
	json_decref(s->env);
	json_decref(s->carried);
	json_decref(s->source);
	json_decref(s->packages);
	json_decref(s->notes);
	json_decref(s->results);
	json_decref(s->result_files);
	json_decref(s->end.detail);
	free(s->group);
	free(s->alias);
	free(s->name_key);
	free(s->name);
	free(s->template);
	free(s->user);
	free(s->cwd);
	free(s);
}

static void free_deferred(struct loop *loop, void *arg)
{
	(void)loop;
	sandbox_free(arg);
}

void sandbox_free_later(struct sandbox *s)
{
	loop_defer(s->fleet->config.loop, free_deferred, s);
}

void sandbox_discard(struct sandbox *s)
{
	fleet_detach(s->fleet, s);
	sandbox_free_later(s);
}

void connection_init(struct sandbox *s)
{
	s->reconnect = loop_timer_new(s->fleet->config.loop, connect_now, s);
}

void connection_rejoin(struct sandbox *s)
{
	connect_now(s->fleet->config.loop, s);
}

void connection_end(struct sandbox *s)
{
	loop_timer_set(s->reconnect, UINT64_MAX);
	s->fleet->on_rejoined(s);
}

void connection_done(struct sandbox *s)
{
	loop_timer_free(s->reconnect);
	broker_client_cancel(s->fleet->broker, s->ask);
}

void sandbox_reconnect(struct sandbox *s)
{
	if (link_is_down(s->link))
		connect_now(s->fleet->config.loop, s);
}
