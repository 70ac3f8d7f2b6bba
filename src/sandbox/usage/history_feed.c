// SPDX-License-Identifier: Apache-2.0
/*
 * A run lasts while a sandbox has processes: from the moment that it runs until it has ended, or
 * lies on disk. One that is paused in memory goes on, for it holds memory.
 */
#include "sandbox/usage/history_feed.h"

#include "base/clock.h"
#include "base/units.h"
#include "sandbox/model/registry.h"
#include "sandbox/usage/account.h"

#define NEW_US (20 * SECOND_US) /* it was created since the last reading, or the one before */

static void tell_began(const struct sandbox *s, uint64_t at_us)
{
	history_run_began(s->fleet->config.history,
	                  &(struct history_run){.project_id = s->project_id,
	                                        .sandbox_id = s->id,
	                                        .name = s->name,
	                                        .template = s->template,
	                                        .began_us = at_us});
}

void history_on_move(const struct sandbox *s, enum sandbox_state next)
{
	struct history *h = s->fleet->config.history;

	if (!h)
		return;
	switch (next) {
	case SANDBOX_RUNNING:
		tell_began(s, clock_wall_us());
		break;
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
		history_run_ended(h, s->id, clock_wall_us());
		break;
	case SANDBOX_PAUSED:
		if (s->paused_in[0])
			history_run_ended(h, s->id, clock_wall_us());
		break;
	case SANDBOX_CREATING:
	case SANDBOX_STOPPING:
	case SANDBOX_PAUSING:
	case SANDBOX_STATE_COUNT:
		break;
	}
}

void history_adopt(const struct sandbox *s)
{
	if (s->fleet->config.history && s->place == PLACE_ALIVE && s->state != SANDBOX_CREATING &&
	    s->state != SANDBOX_STOPPING)
		tell_began(s, s->created_us);
}

static void settle_run(const char *sandbox_id, uint64_t at_us, void *arg)
{
	struct fleet *fleet = arg;
	const struct sandbox *s = fleet_find_id(fleet, sandbox_id);

	if (!s || !sandbox_is_alive(s))
		history_run_ended(fleet->config.history, sandbox_id,
		                  s && s->end.at_us ? s->end.at_us : at_us);
}

void history_settle(struct fleet *fleet)
{
	if (fleet->config.history)
		history_each_open(fleet->config.history, settle_run, fleet);
}

void fleet_feed_history(struct fleet *fleet)
{
	uint64_t now_us = clock_wall_us();

	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		const struct account *a = s->account;
		const uint64_t *of = a->meter ? meter_total(a->meter)->of : NULL;

		if (!of || !a->seen_us || !sandbox_has_guest(s))
			continue;
		history_feed(
			fleet->config.history,
			&(struct history_feed){.project_id = s->project_id,
		                               .sandbox_id = s->id,
		                               .is_new = now_us - s->created_us < NEW_US,
		                               .cpu_ns = of[USAGE_CPU_NS],
		                               .network_in_bytes = of[USAGE_NETWORK_IN_BYTES],
		                               .network_out_bytes = of[USAGE_NETWORK_OUT_BYTES],
		                               .memory_bytes = a->seen.memory_bytes,
		                               .disk_bytes = a->seen.files_bytes});
	}
}
