// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox has two clocks, both steady: changing the date does not move them, and a restart of the
 * daemon within one boot finds them as they were.
 *
 *	lifetime	from when it runs (or is resumed, or the last change of it) to its deadline
 *	idle		since the last activity: a running exec or code, an open file operation or
 *			watch, a change of the sandbox. To look at it (a GET of it, a list) is none.
 *
 * Activity only notes the time; when the idle timer fires it looks at that time and is set again.
 * While something is going on in the sandbox it is not idle, however long that takes. While it is
 * made neither clock runs, so that a slow start takes nothing of its lifetime; a start has bounds
 * of its own. While it is paused neither runs either: it keeps the rest of its lifetime until it
 * goes on. If its lifetime counts while it is paused (counts_paused), its end by the wall clock is
 * noted too, because it may be paused on disk when the machine reboots. If the time is up between
 * two states, the sandbox first reaches the next state.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/code/interpreter.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/ceiling.h"

#include <assert.h>
#include <inttypes.h>

#define LOOK_AGAIN_US (200 * MILLISECOND_US)

static uint64_t now_us(const struct sandbox *s)
{
	return loop_now_us(s->fleet->config.loop);
}

static void arm(struct sandbox *s)
{
	loop_timer_set(s->lifetime, s->deadline_us ? s->deadline_us : UINT64_MAX);
	loop_timer_set(s->idle, s->idle_timeout_ms
	                                ? s->active_us + s->idle_timeout_ms * MILLISECOND_US
	                                : UINT64_MAX);
}

enum timeout_action clocks_on_idle(const struct sandbox *s)
{
	return s->on_idle < ON_TIMEOUT_COUNT ? s->on_idle : s->on_timeout;
}

static void act(struct sandbox *s, enum timeout_action action, enum end_cause cause, json_t *detail,
                const char *message)
{
	const struct pause_wish wish = {.cause = cause};
	struct err err;

	if (action == ON_TIMEOUT_PAUSE) {
		log_info("sandbox.pausing", "id=%s cause=%s", s->id, end_cause_name(cause));
		if (sandbox_pause_as(s, &wish, NULL, NULL, &err) == 0) {
			json_decref(detail);
			return;
		}
		log_warn("sandbox.not_paused", "id=%s error='%s'", s->id, err.message);
	}
	if (action == ON_TIMEOUT_DELETE)
		s->is_kept = false;
	sandbox_end(s, cause, detail, message);
}

/* Returns true if nothing else must be done now. */
static bool is_done_at_rest(struct sandbox *s)
{
	if (s->rests_until_us == 0)
		return false;
	if (s->state != SANDBOX_PAUSED) {
		loop_timer_set_in(s->lifetime, LOOK_AGAIN_US);
		return true;
	}
	if (s->on_timeout != ON_TIMEOUT_PAUSE)
		return false;
	s->left_us = 0;
	clocks_end(s);
	sandbox_note(s);
	return true;
}

static void on_lifetime(struct loop *loop, void *arg)
{
	struct sandbox *s = arg;
	char message[80];

	if (loop_now_us(loop) < s->deadline_us) { /* a wait has a longest */
		loop_timer_set(s->lifetime, s->deadline_us);
		return;
	}
	if (is_done_at_rest(s))
		return;
	if (s->outlive.is_closed) {
		loop_timer_set_in(s->lifetime, LOOK_AGAIN_US);
		return;
	}
	(void)snprintf(message, sizeof(message), "its lifetime of %" PRIu64 " ms was up",
	               s->timeout_ms);
	act(s, s->on_timeout, END_TIMEOUT,
	    json_pack("{s:I}", "timeout_ms", (json_int_t)s->timeout_ms), message);
}

/* Every channel counts as activity, except interpreters that wait for code, and execs that have
 * ended while a child still holds their output. */
static bool is_busy(const struct sandbox *s)
{
	size_t quiet = 0;

	list_for_each (&s->contexts, struct context, c, link)
		quiet += c->state == CONTEXT_IDLE;
	list_for_each (&s->warm, struct context, c, link)
		quiet += c->channel.link != NULL;
	list_for_each (&s->exec_list, struct exec, e, link)
		quiet += exec_is_over(e) && e->channel.link;
	return s->link && link_channels(s->link) > quiet;
}

static void on_idle(struct loop *loop, void *arg)
{
	struct sandbox *s = arg;
	char message[80];

	if (s->state == SANDBOX_CREATING || is_busy(s) || s->outlive.is_closed)
		sandbox_touch(s);
	if (loop_now_us(loop) < s->active_us + s->idle_timeout_ms * MILLISECOND_US) {
		arm(s);
		return;
	}
	(void)snprintf(message, sizeof(message), "nothing happened in it for %" PRIu64 " ms",
	               s->idle_timeout_ms);
	act(s, clocks_on_idle(s), END_IDLE,
	    json_pack("{s:I}", "idle_timeout_ms", (json_int_t)s->idle_timeout_ms), message);
}

void clocks_init(struct sandbox *s)
{
	s->lifetime = loop_timer_new(s->fleet->config.loop, on_lifetime, s);
	s->idle = loop_timer_new(s->fleet->config.loop, on_idle, s);
	sandbox_touch(s);
}

void clocks_done(struct sandbox *s)
{
	loop_timer_free(s->lifetime);
	loop_timer_free(s->idle);
}

static uint64_t whole_lifetime(const struct sandbox *s)
{
	return s->timeout_ms ? s->timeout_ms * MILLISECOND_US : CLOCKS_FOREVER;
}

static void begin(struct sandbox *s)
{
	s->deadline_us = s->timeout_ms ? now_us(s) + s->timeout_ms * MILLISECOND_US : 0;
	s->rests_until_us = 0;
	sandbox_touch(s);
	arm(s);
}

void clocks_await(struct sandbox *s)
{
	clocks_end(s);
	s->left_us = whole_lifetime(s);
}

void clocks_on_running(struct sandbox *s)
{
	if (!s->paused_in[0]) /* else pause_on_running() decides */
		clocks_go_on(s);
}

void clocks_rejoin(struct sandbox *s)
{
	sandbox_touch(s);
	if (s->rests_until_us)
		clocks_rest_on(s);
	else if (s->state != SANDBOX_PAUSED)
		arm(s);
}

void clocks_rest_on(struct sandbox *s)
{
	uint64_t wall = clock_wall_us();
	uint64_t left = s->rests_until_us > wall ? s->rests_until_us - wall : 0;

	if (s->rests_until_us == 0)
		return;
	s->deadline_us = now_us(s) + MIN(left, s->left_us);
	loop_timer_set(s->lifetime, s->deadline_us);
}

static uint64_t what_is_left(const struct sandbox *s)
{
	uint64_t now = now_us(s);

	if (s->deadline_us == 0)
		return CLOCKS_FOREVER;
	return s->deadline_us > now ? s->deadline_us - now : 0;
}

static void rest(struct sandbox *s)
{
	clocks_end(s);
	if (!s->counts_paused || s->left_us == 0 || s->left_us == CLOCKS_FOREVER)
		return;
	s->deadline_us = now_us(s) + s->left_us;
	s->rests_until_us =
		clocks_expires_us(s); /* not from now: this turn may have taken a while */
	loop_timer_set(s->lifetime, s->deadline_us);
}

void clocks_hold(struct sandbox *s)
{
	s->left_us = what_is_left(s);
	rest(s);
}

void clocks_go_on(struct sandbox *s)
{
	if (s->rests_until_us) {
		s->rests_until_us = 0;
		sandbox_touch(s);
		arm(s);
		return;
	}
	if (s->left_us == 0) { /* it was paused because its time was up: it gets the same again */
		begin(s);
		return;
	}
	s->deadline_us = s->left_us == CLOCKS_FOREVER ? 0 : now_us(s) + s->left_us;
	sandbox_touch(s);
	arm(s);
}

void clocks_end(struct sandbox *s)
{
	s->deadline_us = s->rests_until_us = 0;
	loop_timer_set(s->lifetime, UINT64_MAX);
	loop_timer_set(s->idle, UINT64_MAX);
}

/* Sandboxes that do not run get their time, old or new, when they run again. */
void clocks_update(struct sandbox *s, bool has_new_timeout)
{
	const bool is_running = s->state == SANDBOX_RUNNING;

	if (is_running && has_new_timeout)
		begin(s);
	else if (is_running)
		arm(s);
	else if (has_new_timeout)
		s->left_us = whole_lifetime(s);
	else if (s->rests_until_us)
		s->left_us = MAX(what_is_left(s), UINT64_C(1));
	if (s->state == SANDBOX_PAUSED)
		rest(s);
}

int sandbox_extend(struct sandbox *s, uint64_t ms, struct err *err)
{
	const bool is_held = s->state == SANDBOX_CREATING && s->rests_until_us == 0;
	uint64_t max_us = ceiling_timeout_ms(s) * MILLISECOND_US;
	uint64_t left_us;

	if (s->state != SANDBOX_RUNNING && !is_held && s->rests_until_us == 0)
		return err_set(err, sandbox_is_resting(s) ? ERR_CONFLICT : ERR_GONE, 0,
		               "sandbox %s is %s: its time does not run", s->id,
		               sandbox_state_name(s->state));
	left_us = !is_held ? what_is_left(s) : s->left_us ? s->left_us : whole_lifetime(s);
	if (left_us == CLOCKS_FOREVER)
		return err_set(err, ERR_CONFLICT, 0, "sandbox %s has no end to extend", s->id);
	if (max_us > 0 && ms * MILLISECOND_US > max_us - MIN(left_us, max_us))
		return err_field(err, "ms",
		                 "%" PRIu64 " ms are left, and with these it would be over the "
		                 "most, %" PRIu64 " ms",
		                 left_us / MILLISECOND_US, max_us / MILLISECOND_US);
	if (is_held) {
		s->left_us = left_us + ms * MILLISECOND_US;
		return sandbox_save(s, err);
	}
	s->deadline_us += ms * MILLISECOND_US;
	if (s->rests_until_us) {
		s->left_us = what_is_left(s);
		rest(s);
	} else {
		sandbox_touch(s);
		arm(s);
	}
	return sandbox_save(s, err);
}

uint64_t clocks_expires_us(const struct sandbox *s)
{
	uint64_t now = clock_steady_us();

	if (s->deadline_us == 0)
		return 0;
	/* Whole milliseconds: the two clocks are not read at the same moment. */
	return (clock_wall_us() + s->deadline_us - MIN(now, s->deadline_us)) / MILLISECOND_US *
	       MILLISECOND_US;
}
