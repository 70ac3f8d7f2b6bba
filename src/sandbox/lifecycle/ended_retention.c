// SPDX-License-Identifier: Apache-2.0
/*
 * How long ended sandboxes are remembered, with their execs, output and results. The oldest is
 * forgotten when there are too many, when together they take too much space, or when it is too old.
 * Age is counted by the steady clock, so changing the date forgets nothing; only for those of an
 * earlier daemon the date of their end counts.
 */
#include "base/clock.h"
#include "base/units.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/lifecycle/results.h"

static bool is_due(const struct fleet *fleet, const struct sandbox *s)
{
	const struct fleet_config *c = &fleet->config;

	return fleet->n_ended > c->ended_max || fleet->ended_bytes > c->ended_bytes_max ||
	       s->forget_at_us <= loop_now_us(c->loop);
}

/* A job, since after a long time without a daemon there may be many. */
static bool forget_some(struct loop *loop, void *arg)
{
	struct fleet *fleet = arg;
	struct sandbox *s;

	while ((s = list_first(&fleet->ended, struct sandbox, link_ended)) && is_due(fleet, s)) {
		sandbox_forget(s);
		if (!loop_has_time(loop))
			return false;
	}
	loop_timer_set(fleet->forget, s ? s->forget_at_us : UINT64_MAX);
	return true;
}

static void on_time(struct loop *loop, void *arg)
{
	const struct fleet *fleet = arg;

	(void)loop;
	loop_job_start(fleet->forgetting);
}

void retention_init(struct fleet *fleet)
{
	fleet->forget = loop_timer_new(fleet->config.loop, on_time, fleet);
	fleet->forgetting = loop_job_new(fleet->config.loop, forget_some, fleet);
}

void retention_done(struct fleet *fleet)
{
	loop_timer_free(fleet->forget);
	loop_job_free(fleet->forgetting);
}

void retention_add(struct sandbox *s)
{
	struct fleet *fleet = s->fleet;
	uint64_t age_us = fleet->config.ended_age_ms * MILLISECOND_US, wall = clock_wall_us();
	uint64_t gone_us = wall > s->end.at_us ? wall - s->end.at_us : 0;

	kept_trim(s);
	s->retained_bytes = s->result_bytes;
	list_for_each (&s->exec_list, struct exec, e, link)
		s->retained_bytes += kept_bytes_of(e);
	fleet->ended_bytes += s->retained_bytes;
	results_keep(s);
	s->forget_at_us =
		loop_now_us(fleet->config.loop) + (gone_us < age_us ? age_us - gone_us : 0);
	loop_timer_set_in(fleet->forget, 0); /* later: someone may be walking the list */
}
