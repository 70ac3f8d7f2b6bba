// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Stops the machine so that its disk, and with a descriptor also its devices, can be saved:
 *
 *	idle --QUIESCE--> quieting --stop--> stopping --> still --> idle
 *	          the guest writes out,        devices are
 *	          its programs are frozen      written
 *
 * The machine goes on when the asker hangs up, at any stage. The line to it (line.h) is held before
 * the save, so no message is cut in half.
 */
#include "vmm/control.h"
#include "vmm/line.h"
#include "vmm/qmp.h"

struct save {
	struct line *line;
	struct qmp *qmp;
	struct control *control;
	struct loop_timer *timer;
	int fd; /* for the devices' state, or -1 */
	enum { SAVE_IDLE, SAVE_QUIETING, SAVE_STOPPING, SAVE_STILL } state;
};

void save_init(struct save *s, struct loop *loop, struct line *line, struct qmp *qmp,
               struct control *control);
void save_begin(struct save *s, int fd);     /* owns fd */
bool save_has_devices(const struct save *s); /* whether the devices' state is saved too */
void save_on_quiesced(struct save *s);       /* the guest's word, and no card is in it */
void save_fail(struct save *s, const struct err *err);
void save_end(struct save *s);
