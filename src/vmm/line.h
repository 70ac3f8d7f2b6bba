// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The line between the daemon and the agent in the guest: connections to a listening socket on one
 * side, records (proto/port.h) on the guest's virtio-serial port on the other. One connection at a
 * time; a new one replaces the old, whose last bytes still go to the guest.
 *
 * There is back-pressure both ways: one side is read only while the other accepts bytes, so the
 * buffers are bounded.
 */
#include "loop/loop.h"
#include "proto/port.h"

struct line_ops {
	void (*on_control)(enum port_kind kind, const char *text, size_t len, void *arg);
	void (*on_broken)(void *arg); /* the guest sent something that is not a record */
};

struct line {
	const struct line_ops *ops;
	void *arg;
	struct loop *loop;
	int port_fd, listen_fd;
	int fd; /* the connection, or -1 */
	uint32_t number;
	struct loop_io *port_io, *listen_io, *io;
	struct buf from_port, to_port, to_fd;
	bool is_held;
};

must_check int line_open(struct line *l, struct loop *loop, int port_fd, const struct line_ops *ops,
                         void *arg, struct err *err);
/* Connections are accepted from here on. */
must_check int line_listen(struct line *l, int listen_fd, struct err *err);
/* While held, nothing more of the connection goes to the guest, and no new one is accepted. */
void line_hold(struct line *l, bool on);
must_check int line_send_control(struct line *l, enum port_kind kind, const char *text, size_t len);
