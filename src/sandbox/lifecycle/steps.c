// SPDX-License-Identifier: Apache-2.0
/*
 * What happens in an order is a table of steps, and this goes through it. Most steps wait for
 * somebody: the broker, the agent, the wall. So a step only begins here, and whoever has its answer
 * calls life_next().
 *
 * There is no undo beside a step. A create that fails ends as any sandbox does (end.c), which lets
 * go of whatever is there and asks the broker to remove the rest; each part of that may come at any
 * time.
 */
#include "base/log.h"
#include "sandbox/lifecycle/lifecycle.h"

void life_begin(struct sandbox *s, const struct life_step *step)
{
	s->step = step;
	log_debug("sandbox.step", "id=%s step=%s", s->id, step->name);
	step->begin(s);
}

void life_next(struct sandbox *s)
{
	life_begin(s, s->step + 1);
}
