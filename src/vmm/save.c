// SPDX-License-Identifier: Apache-2.0
/*
 * xen-save-devices-state writes the same as a migration, but without RAM: the broker reads RAM from
 * outside while nothing changes it. QEMU gets the file as an fd set, since it cannot open it by
 * name.
 */
#include "vmm/save.h"

#include "base/units.h"
#include "proto/port.h"

#define QUIET_US                                                                                   \
	(20 * SECOND_US) /* to write out what is dirty; a busy host more slowly                    \
	                  */
#define STATE_SET 90     /* above those of the disks */

void save_fail(struct save *s, const struct err *err)
{
	loop_timer_set(s->timer, UINT64_MAX);
	control_answer(s->control, err);
}

static void on_late(struct loop *loop, void *arg)
{
	struct save *s = arg;
	struct err err;

	(void)loop;
	(void)err_set(&err, ERR_TIMEOUT, 0, "the guest does not come to rest");
	save_fail(s, &err);
}

/* The asker may have hung up already; the commands still run in order. */
static void on_still(const struct err *err, void *arg)
{
	struct save *s = arg;

	if (s->state != SAVE_STOPPING)
		return;
	s->state = SAVE_STILL;
	control_answer(s->control, err);
}

static void on_step(const struct err *err, void *arg)
{
	if (err)
		on_still(err, arg);
}

bool save_has_devices(const struct save *s)
{
	return s->state == SAVE_QUIETING && s->fd >= 0;
}

void save_on_quiesced(struct save *s)
{
	qmp_fn stopped = s->fd < 0 ? on_still : on_step;
	struct err err;
	int r;

	if (s->state != SAVE_QUIETING)
		return;
	s->state = SAVE_STOPPING;
	loop_timer_set(s->timer, UINT64_MAX);
	r = qmp_send(s->qmp, -1, stopped, s, &err, "{\"execute\":\"stop\"}");
	if (r == 0 && s->fd >= 0) {
		r = qmp_send(s->qmp, take_fd(&s->fd), on_step, s, &err,
		             "{\"execute\":\"add-fd\",\"arguments\":{\"fdset-id\":%d}}", STATE_SET);
		if (r == 0)
			r = qmp_send(s->qmp, -1, on_still, s, &err,
			             "{\"execute\":\"xen-save-devices-state\",\"arguments\":"
			             "{\"filename\":\"/dev/fdset/%d\",\"live\":false}}",
			             STATE_SET);
		if (r == 0)
			r = qmp_send(s->qmp, -1, NULL, NULL, &err,
			             "{\"execute\":\"remove-fd\",\"arguments\":{\"fdset-id\":%d}}",
			             STATE_SET);
	}
	if (r < 0)
		on_still(&err, s);
}

void save_begin(struct save *s, int fd)
{
	struct err err;

	s->fd = fd;
	s->state = SAVE_QUIETING;
	line_hold(s->line, true);
	loop_timer_set_in(s->timer, QUIET_US);
	if (line_send_control(s->line, PORT_QUIESCE, NULL, 0) < 0) {
		(void)err_set(&err, ERR_INTERNAL, 0, "cannot tell the guest");
		save_fail(s, &err);
	}
}

void save_end(struct save *s)
{
	if (s->state == SAVE_IDLE)
		return;
	if (s->state != SAVE_QUIETING)
		(void)!qmp_send(s->qmp, -1, NULL, NULL, NULL, "{\"execute\":\"cont\"}");
	s->state = SAVE_IDLE;
	loop_timer_set(s->timer, UINT64_MAX);
	if (s->fd >= 0)
		(void)close(take_fd(&s->fd));
	(void)!line_send_control(s->line, PORT_GO_ON, NULL, 0);
	line_hold(s->line, false);
}

void save_init(struct save *s, struct loop *loop, struct line *line, struct qmp *qmp,
               struct control *control)
{
	*s = (struct save){.line = line, .qmp = qmp, .control = control, .fd = -1};
	s->timer = loop_timer_new(loop, on_late, s);
}
