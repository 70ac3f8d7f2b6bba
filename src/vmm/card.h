// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The machine's network card. It is plugged in and unplugged while the machine runs: QEMU is told
 * by its control protocol, and the guest by a SETUP with its addresses.
 *
 *	out --plug--> plugging --READY--> in --pull--> pulling --> out
 *	                  ^----put back---- aside <-- leaving <--set aside--+
 *
 * If a guest does not release its card, it stays in `pulling`, and its tap leads nowhere. While the
 * machine is saved the card is set aside, because the saved state must not have it: a copy starts
 * without one. QEMU keeps the tap meanwhile, and connections through it go on afterwards.
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
	void (*done)(const struct err *err, void *arg); /* of the last request; err NULL: success */
	void *arg;
	bool is_awaited;
	void (*aside)(const struct err *err, void *arg); /* NULL: nobody waits for it */
};

void card_init(struct card *c, struct qmp *qmp, struct line *line,
               void (*done)(const struct err *err, void *arg), void *arg);
/* Calls done(), now or later. tap_fd is closed here; -1 if the machine has it already. */
void card_plug(struct card *c, int tap_fd, bool has_ip6);
void card_pull(struct card *c);
/* Calls aside(), now or later, with the arg of done(), when the machine has no card. */
void card_set_aside(struct card *c, void (*aside)(const struct err *err, void *arg));
void card_put_back(struct card *c); /* if it was; aside() is not called any more */
void card_forget(struct card *c);   /* the asker is gone: done() is not called */
void card_on_event(struct card *c, const char *line); /* of QEMU's */
void card_on_ready(struct card *c);                   /* of the guest's */
void card_on_failed(struct card *c, const char *text, size_t len);
