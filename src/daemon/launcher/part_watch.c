// SPDX-License-Identifier: Apache-2.0
/*
 * The launcher's looks at its parts: who is stuck while all are up, and whether anybody still works
 * while they start.
 */
#include "daemon/launcher/launcher_private.h"
#include "daemon/notify.h"

#include <inttypes.h>
#include <signal.h>

#define START_IDLE_US (120 * SECOND_US) /* of parts that only wait */

static void look_at(struct child *c)
{
	struct launcher *l = c->launcher;
	uint64_t most_us = l->site->config->watchdog_ms * 1000;
	struct watchdog_look look;
	uint64_t silent_us;

	if (!c->watch || c->is_stuck || !watchdog_read(c->pid, loop_now_us(l->loop), &look))
		return;
	silent_us = watchdog_on_look(&c->watchdog, &look);
	if (silent_us < most_us)
		return;
	c->is_stuck = true;
	log_error("daemon.part_stuck",
	          "name=%s pid=%d state=%c silent_ms=%" PRIu64
	          " message='it is killed and replaced'",
	          launcher_roles[c->role].name, (int)c->pid, look.state, silent_us / 1000);
	notify_status("the %s was stuck and is being replaced", launcher_roles[c->role].name);
	launcher_send_signal(c, SIGKILL);
}

static bool is_busy(struct child *c)
{
	const struct watchdog_look last = c->start_look;

	if (!c->watch || !watchdog_read(c->pid, loop_now_us(c->launcher->loop), &c->start_look))
		return false;
	return watchdog_is_busy(&last, &c->start_look) || watchdog_has_busy_child(c->pid);
}

/* A start takes as long as it takes: on a slow or busy host a limit in seconds would kill it again
 * and again. But if everybody waits, each for another, it will never end. */
static void look_at_start(struct launcher *l)
{
	uint64_t now_us = loop_now_us(l->loop);
	bool is_anybody_busy = false;

	for (size_t i = 0; i < ROLE_COUNT; i++)
		is_anybody_busy = is_busy(&l->children[i]) || is_anybody_busy;
	if (!is_anybody_busy)
		l->idle_us += MIN(now_us - l->looked_us, WATCHDOG_LOOK_MOST_US);
	l->looked_us = now_us;
	if (l->idle_us >= START_IDLE_US)
		launcher_on_patience_end(l->loop, l);
	else if (!l->was_up)
		notify_starting((now_us - l->started_us) / SECOND_US);
}

/* systemd's watchdog looks at a daemon that was ready once. */
static uint64_t systemd_us(const struct launcher *l)
{
	return l->was_up ? notify_watchdog_us() : UINT64_MAX;
}

uint64_t launcher_next_look_us(const struct launcher *l)
{
	uint64_t watchdog_ms = l->site->config->watchdog_ms;
	uint64_t next_us = UINT64_MAX;

	if (watchdog_ms > 0 || l->phase == PHASE_STARTING)
		next_us = watchdog_period_us(watchdog_ms > 0 ? watchdog_ms : UINT64_MAX / 1000);
	return MIN(next_us, systemd_us(l));
}

/* A stop has a timeout of its own, after which all are killed. */
void launcher_on_look(struct loop *loop, void *arg)
{
	struct launcher *l = arg;
	uint64_t watchdog_ms = l->site->config->watchdog_ms, next_us;

	(void)loop;
	if (systemd_us(l) != UINT64_MAX)
		notify_send("WATCHDOG=1");
	if (l->phase == PHASE_STARTING)
		look_at_start(l);
	for (size_t i = 0; watchdog_ms > 0 && l->phase == PHASE_UP && i < ROLE_COUNT; i++) {
		launcher_read_control(&l->children[i]); /* a beat may lie there */
		look_at(&l->children[i]);
	}
	next_us = launcher_next_look_us(l);
	if (next_us != UINT64_MAX)
		loop_timer_set_in(l->look, next_us);
	else
		loop_timer_set(l->look, UINT64_MAX);
}
