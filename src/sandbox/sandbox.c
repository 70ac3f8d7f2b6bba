// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox between its create (create.c) and its end (end.c): its states, who waits for them, and
 * the connection to its agent.
 *
 * A connection that is lost without a violation is made anew a few times: the agent may have been
 * told to by a newer connection, or be about to be reported dead by the broker.
 */
#include "sandbox/sandbox.h"

#include "base/clock.h"
#include "base/log.h"
#include "sandbox/account.h"
#include "sandbox/create_source.h"
#include "sandbox/network.h"
#include "sandbox/pool.h"
#include "sandbox/warm_up.h"

#include <assert.h>

#define MILLISECONDS      UINT64_C(1000)
#define SECONDS           UINT64_C(1000000)
#define RECONNECT_US      (50 * MILLISECONDS) /* doubled each time */
#define RECONNECTS_MAX    5                   /* within RECONNECT_SPAN_US, then it is given up */
#define RECONNECT_SPAN_US (60 * SECONDS)

static const struct {
	const char *name;
	unsigned next; /* the states it may move to */
} states[] = {
	/* Back to paused: one that could not be woken. */
	[SANDBOX_CREATING] = {"creating",
                              BIT(SANDBOX_RUNNING) | BIT(SANDBOX_PAUSED) | BIT(SANDBOX_STOPPING)},
	[SANDBOX_RUNNING] = {"running", BIT(SANDBOX_PAUSING) | BIT(SANDBOX_STOPPING)},
	[SANDBOX_PAUSING] = {"pausing",
                             BIT(SANDBOX_PAUSED) | BIT(SANDBOX_RUNNING) | BIT(SANDBOX_STOPPING)},
	[SANDBOX_PAUSED] = {"paused", BIT(SANDBOX_RUNNING) | BIT(SANDBOX_CREATING) |
                                              BIT(SANDBOX_PAUSING) | BIT(SANDBOX_STOPPING)},
	[SANDBOX_STOPPING] = {"stopping", BIT(SANDBOX_STOPPED) | BIT(SANDBOX_FAILED)},
	/* Those of a persistent one; any other stays there. */
	[SANDBOX_STOPPED] = {"stopped", BIT(SANDBOX_CREATING) | BIT(SANDBOX_STOPPING)},
	[SANDBOX_FAILED] = {"failed", BIT(SANDBOX_CREATING) | BIT(SANDBOX_STOPPING)},
};
static_assert(ARRAY_SIZE(states) == SANDBOX_STATE_COUNT, "a state has no row");

struct news { /* for a caller, from the loop */
	sandbox_done_fn fn;
	void *arg;
	struct sandbox *s;
	struct err err;
};

static const struct link_ops link_ops;

const char *sandbox_state_name(enum sandbox_state state)
{
	return states[state].name;
}

void sandbox_move(struct sandbox *s, enum sandbox_state next)
{
	enum sandbox_state from = s->state;

	assert(states[from].next & BIT(next));
	log_info("sandbox.moved", "id=%s from=%s to=%s", s->id, states[from].name,
	         states[next].name);
	account_on_move(s, next);
	s->state = next;
	if (s->spare)
		return;
	if (next == SANDBOX_RUNNING)
		owner_tell(s);
	emit_moved(s, from);
}

static void tell_now(struct loop *loop, void *arg)
{
	struct news *news = arg;

	(void)loop;
	news->fn(news->s, news->s ? NULL : &news->err, news->arg);
	free(news);
}

/* s is freed at the end of a turn at the earliest, behind what was told about it. */
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

static int save(void *arg, struct err *err)
{
	return sandbox_save(arg, err);
}

/* On failure the next start finds the older record, and what the broker has. */
void sandbox_note(struct sandbox *s)
{
	struct err err;

	if (s->spare)
		return; /* a row would make it somebody's */
	if (event_log_save(s->fleet->config.events, save, s, &err) < 0)
		log_error("sandbox.unsaved", "id=%s error='%s'", s->id, err.message);
}

bool sandbox_is_alive(const struct sandbox *s)
{
	return s->state != SANDBOX_STOPPED && s->state != SANDBOX_FAILED;
}

void sandbox_forget(struct sandbox *s)
{
	struct err err;

	exec_remove_all(s);
	if (store_delete_sandbox(s->fleet->config.store, s->id, &err) < 0)
		log_error("sandbox.unsaved", "id=%s error='%s'", s->id, err.message);
	sandbox_discard(s);
}

int sandbox_ask(struct sandbox *s, enum msg_op op, broker_client_fn fn, struct err *err)
{
	struct msg_request req = {.op = op};

	broker_client_cancel(s->fleet->broker, s->ask);
	memcpy(req.id, s->id, sizeof(req.id));
	return broker_client_ask_for(s->fleet->broker, sandbox_share(s), &req, fn, s, &s->ask, err);
}

bool sandbox_is_durable(const struct sandbox *s)
{
	return s->is_persistent || s->paused_in[0];
}

void sandbox_begin(struct sandbox *s)
{
	sandbox_move(s, SANDBOX_RUNNING);
	if (s->is_persistent && (s->resumes == 0 || s->rolls_to[0]))
		durable_on_layer(s->fleet);
	rollback_on_running(s);
	pause_on_running(s);
	sandbox_note(s);
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
		adoption_on_rejoined(s);
		pause_on_link(s);
	} else if (s->spare) {
		pool_on_up(s);
	} else {
		fetch_begin(s);
	}
}

static void on_connect_reply(const struct msg_reply *reply, int fd, void *arg);

static void connect_now(struct loop *loop, void *arg)
{
	struct sandbox *s = arg;
	struct err err;

	(void)loop;
	/* Without a broker this gateway ends, and the next one finds it as it is. */
	if (sandbox_ask(s, MSG_CONNECT, on_connect_reply, &err) < 0 &&
	    !broker_client_is_gone(s->fleet->broker))
		sandbox_end(s, END_GUEST_CRASH, NULL, err.message);
}

static void connect_again(struct sandbox *s, const char *why)
{
	uint64_t now = loop_now_us(s->fleet->config.loop);
	struct err err;

	if (s->is_saving || pause_is_on_disk(s)) /* its agent has let go, as it was told to */
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

static void on_connect_reply(const struct msg_reply *reply, int fd, void *arg)
{
	struct sandbox *s = arg;

	s->ask = 0;
	if (reply->err.code == ERR_NONE && fd >= 0) {
		link_attach(s->link, fd);
		return;
	}
	if (fd >= 0)
		(void)close(fd);
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

/* Of a jail only its programs stand still: a vm does as a whole. */
static bool is_still(void *arg)
{
	const struct sandbox *s = arg;

	return s->engine == ENGINE_VM &&
	       (s->state == SANDBOX_PAUSING || s->state == SANDBOX_PAUSED);
}

/* The agent of a jail waits for the host's kernel at worst, and for nobody inside. */
static void on_link_hung(void *arg)
{
	struct sandbox *s = arg;

	if (s->engine == ENGINE_VM)
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

struct share *sandbox_share(const struct sandbox *s)
{
	return shares_get(s->fleet->config.shares, s->project_id);
}

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
	s->calls_counter = CRASH_COUNTER_NONE;
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
	end_init(s);
	s->reconnect = loop_timer_new(fleet->config.loop, connect_now, s);
	clocks_init(s);
	return s;
}

void sandbox_free(struct sandbox *s)
{
	list_remove(&s->link_untold);
	account_free(s);
	fetch_end(s);
	exec_free_all(s);
	warm_up_end(s);
	context_free_all(s);
	port_connection_cut_all(s, 0);
	free(s->ports);
	link_free(s->link);
	end_done(s);
	loop_job_free(s->exec_trim);
	loop_timer_free(s->reconnect);
	clocks_done(s);
	network_free(s);
	broker_client_cancel(s->fleet->broker, s->ask);
	broker_client_cancel(s->fleet->broker, s->freeze_ask);
	sandbox_drop_waiters(&s->callers);
	sandbox_drop_waiters(&s->waiters);
	sandbox_drop_waiters(&s->pausers);
	json_decref(s->tags);
	json_decref(s->env);
	json_decref(s->carried);
	json_decref(s->source);
	json_decref(s->packages);
	json_decref(s->notes);
	json_decref(s->end.detail);
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

void sandbox_rejoin(struct sandbox *s)
{
	s->end.cause = END_NONE;
	sandbox_make_link(s);
	exec_rejoin_all(s);
	context_rejoin_all(s);
	clocks_rejoin(s);
	connect_now(s->fleet->config.loop, s);
	wake_rejoin(s);
	owner_tell(s);
}

void sandbox_reconnect(struct sandbox *s)
{
	if (link_is_down(s->link))
		connect_now(s->fleet->config.loop, s);
}

struct link *sandbox_link(struct sandbox *s, struct err *err)
{
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
		(void)err_set(err, ERR_GONE, 0, "sandbox %s has ended (%s): %s", s->id,
		              end_cause_name(s->end.cause), s->end.message);
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

int sandbox_take_channel(struct sandbox *s, uint32_t *ret, struct err *err)
{
	if (s->next_channel == s->channels_to) {
		int r;

		if (s->channels_to > UINT32_MAX - CHANNEL_BLOCK)
			return err_set(err, ERR_LIMIT, 0,
			               "sandbox %s has had all the execs and file operations that "
			               "it can have",
			               s->id);
		s->channels_to += CHANNEL_BLOCK;
		r = sandbox_save(s, err);
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

const char *sandbox_project_id(const struct sandbox *s)
{
	return s->project_id;
}

uint32_t sandbox_engine(const struct sandbox *s)
{
	return s->engine;
}

struct fleet *sandbox_fleet(const struct sandbox *s)
{
	return s->fleet;
}
