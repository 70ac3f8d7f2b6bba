// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A channel's stdin, or what goes to a kernel: bytes from the host wait here until the program
 * takes them, so that one which never reads holds up nobody else. The host may be FRAME_WINDOW
 * ahead of the last INPUT_ACK; after a RESUME the agent acknowledges all that has arrived, so two
 * windows may be here at once.
 */
#include "base/buf.h"
#include "loop/loop.h"

struct input {
	int fd; /* -1: closed or never there; what comes is thrown away */
	struct loop_io *io;
	uint32_t idle_events; /* of epoll, while there is nothing to write */
	struct buf bytes;
	uint64_t arrived; /* from the host */
	uint64_t told;    /* in the last INPUT_ACK */
	bool is_pty;
	bool is_ending;  /* close once all is written */
	bool is_refused; /* the program has closed its end before an INPUT_END */
	bool told_refusal;
	char last; /* the last byte written: decides how many VEOF end a terminal's input */
	void (*on_change)(void *arg); /* there may be an INPUT_ACK to send */
	void *arg;
};

void input_init(struct input *in, void (*on_change)(void *arg), void *arg);
/* Takes fd, a non-blocking pipe's end or pty master. */
must_check int input_open(struct input *in, struct loop *loop, int fd, bool is_pty);
void input_done(struct input *in);
must_check int input_put(struct input *in, const void *data, size_t len); /* -EPROTO past window */
void input_end(struct input *in);
/* Whether it is time for an INPUT_ACK, and with which count. */
bool input_ack_due(const struct input *in, uint64_t *ret_count);
/* Whether it is time to say that the program has closed its end: all that arrived is acknowledged,
 * and the last INPUT_ACK is to be said again. */
bool input_refusal_due(const struct input *in);
