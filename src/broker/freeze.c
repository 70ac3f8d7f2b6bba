// SPDX-License-Identifier: Apache-2.0
/*
 * A freeze is answered when all processes of the sandbox are frozen. The kernel needs a moment for
 * that: a process in a system call has to finish it first. Meanwhile the engine is polled, with
 * growing pauses. A sandbox that does not freeze in time is thawed, and the reply is an error.
 *
 * A box has one freeze at a time. The broker does not wait for it when the gateway is gone: the
 * next gateway asks for the state that its records have.
 */
#include "base/units.h"
#include "broker/broker_private.h"

#include <string.h>

#define FIRST_LOOK_US  500U
#define LAST_LOOK_US   20000U
#define STANDSTILL_MAX (10 * SECOND_US)

struct freeze {
	struct box *box;
	uint64_t tag;
	uint64_t pause_us, until_us;
	struct loop_timer *timer;
};

static void finish(struct box *box, const struct err *err)
{
	struct freeze *f = take_ptr(box->freeze);
	struct msg_reply reply;

	box_reply_init(&reply, MSG_FREEZE, f->tag, box->spec.id);
	if (err)
		reply.err = *err;
	loop_timer_free(f->timer);
	free(f);
	wire_reply(box->broker->wire, &reply, NULL);
}

static void look(struct loop *loop, void *arg)
{
	struct freeze *f = arg;
	struct box *box = f->box;
	const struct engine *engine = box->engine;
	struct err err = {0}, ignored;
	int r = engine->freeze(box->guest, /* on= */ true, &err);

	if (r == 1 && loop_now_us(loop) < f->until_us) {
		f->pause_us = MIN(2 * f->pause_us, LAST_LOOK_US);
		loop_timer_set_in(f->timer, f->pause_us);
		return;
	}
	if (r == 1) {
		(void)!engine->freeze(box->guest, /* on= */ false, &ignored);
		r = err_set(&err, ERR_TIMEOUT, 0,
		            "a process of sandbox %s is held up in the kernel: it was not paused",
		            box->spec.id);
		(void)err_hint(&err, "try again, or stop it");
	}
	finish(box, r < 0 ? &err : NULL);
}

int freeze_begin(struct box *box, uint64_t tag, struct err *err)
{
	struct loop *loop = box->broker->config.loop;
	struct freeze *f;
	int r = box->engine->freeze(box->guest, /* on= */ true, err);

	if (r != 1)
		return r;
	f = xnew0(struct freeze);
	*f = (struct freeze){.box = box,
	                     .tag = tag,
	                     .pause_us = FIRST_LOOK_US,
	                     .until_us = loop_now_us(loop) + STANDSTILL_MAX,
	                     .timer = loop_timer_new(loop, look, f)};
	loop_timer_set_in(f->timer, f->pause_us);
	box->freeze = f;
	return 1;
}

void freeze_cancel(struct box *box)
{
	struct err err;

	if (!box->freeze)
		return;
	(void)err_set(&err, ERR_CONFLICT, ECANCELED,
	              "a later request has changed the state of sandbox %s", box->spec.id);
	finish(box, &err);
}

void freeze_free(struct box *box)
{
	if (!box->freeze)
		return;
	loop_timer_free(box->freeze->timer);
	free(take_ptr(box->freeze));
}
