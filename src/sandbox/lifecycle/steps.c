// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a table of steps in order. Most steps wait for the broker, the agent or the wall. So a step
 * is only started here, and the code that gets the answer calls life_next().
 *
 * Steps have no undo. A failed create ends like any sandbox (end.c): that releases whatever exists
 * and asks the broker to remove the rest, and works at any time.
 *
 * Two moves have a table: a create (also a resume and a wake, create_steps.c) and an end (end.c).
 * The others need none. The steps of a pause are its phases, and model/phase.c has the table of
 * these, with what undoes each. A rollback is an end and a create, a fork a snapshot and creates.
 */
#include "base/log.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "telemetry/span.h"

void life_begin(struct sandbox *s, const struct life_step *step)
{
	s->step = step;
	log_debug("sandbox.step", "id=%s step=%s", s->id, step->name);
	step->begin(s);
}

void life_next(struct sandbox *s)
{
	span_part(s->span, s->step->name);
	life_begin(s, s->step + 1);
}
