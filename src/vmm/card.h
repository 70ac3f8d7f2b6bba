// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The machine's network card, which is plugged in while it runs and pulled out again: QEMU is told
 * by its control protocol, the guest by a SETUP with its addresses.
 *
 *	out --plug--> plugging --READY--> in --pull--> pulling --> out
 *	                  ^----put back---- aside <-- leaving <--set aside--+
 *
 * One that a guest does not let go of stays in `pulling`; its tap leads nowhere then. Set aside, it
 * is out for as long as the machine is saved, whose state must not have it: a copy begins with
 * none. Its tap stays with QEMU meanwhile, and what is connected through it goes on after.
 */
#include "vmm/line.h"
#include "vmm/qmp.h"

enum card_state {
	CARD_OUT,
	CARD_PLUGGING,
	CARD_IN,
	CARD_PULLING,
	CARD_LEAVING,
	CARD_ASIDE,
};

struct card {
	enum card_state state;
	bool has_ip6;
	struct qmp *qmp;
	struct line *line;
	void (*done)(const struct err *err, void *arg); /* what was asked for last; NULL: it is */
	void *arg;
	bool is_awaited;
	void (*aside)(const struct err *err, void *arg); /* NULL: nobody waits for it */
};

void card_init(struct card *c, struct qmp *qmp, struct line *line,
               void (*done)(const struct err *err, void *arg), void *arg);
/* done() is called from there or later. tap_fd is closed here; -1 where the machine has it. */
void card_plug(struct card *c, int tap_fd, bool has_ip6);
void card_pull(struct card *c);
/* aside() is called from there or later, with the arg of done(): there is none in the machine. */
void card_set_aside(struct card *c, void (*aside)(const struct err *err, void *arg));
void card_put_back(struct card *c); /* if it was; aside() is not called any more */
void card_forget(struct card *c);   /* whoever asked has gone: done() is not called */
void card_on_event(struct card *c, const char *line); /* of QEMU's */
void card_on_ready(struct card *c);                   /* of the guest's */
void card_on_failed(struct card *c, const char *text, size_t len);
