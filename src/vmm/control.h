// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The socket for the broker's asks (asks.h): one connection at a time, one ask on each. Further
 * connections wait.
 */
#include "loop/loop.h"
#include "vmm/asks.h"

struct control_ops {
	/* fd came with the ask, -1 for none; the callee owns it, and calls control_answer(), now or
	 * later. */
	void (*on_ask)(const struct vmm_ask *ask, int fd, void *arg);
	void (*on_over)(uint32_t kind, void *arg); /* the asker has hung up */
};

struct control {
	const struct control_ops *ops;
	void *arg;
	struct loop *loop;
	int listen_fd, fd;
	struct loop_io *listen_io, *io;
	uint32_t kind; /* of the ask that is served; 0: none came yet */
};

must_check int control_open(struct control *c, struct loop *loop, int listen_fd,
                            const struct control_ops *ops, void *arg, struct err *err);
void control_answer(struct control *c, const struct err *err); /* NULL: it is done */
void control_answer_usage(struct control *c, const struct port_usage *usage);
