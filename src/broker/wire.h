// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The broker's end of the socket to the gateway: requests in, replies out in order, none lost. If
 * the socket is full, a reply waits in a queue. While anything waits no request is read, so only
 * the replies to one request and the ends of guests can be in the queue.
 */
#include "broker/msg.h"

struct wire;

struct wire_ops {
	/* *req holds as much of the message as fits, then zeros; len is -EPROTO if it was too
	 * long. */
	void (*on_request)(const struct msg_request *req, ssize_t len, size_t n_fds, void *arg);
	void (*on_gone)(void *arg); /* once: the gateway has closed its end */
};

must_check int wire_new(struct loop *loop, int fd, const struct wire_ops *ops, void *arg,
                        struct wire **ret, struct err *err); /* owns fd, also on failure */
void wire_free(struct wire *w);                              /* NULL is fine; from any callback */
/* fds: MSG_FDS_MAX of them, -1 = none; the wire owns them from here on. NULL: none at all. */
void wire_reply(struct wire *w, const struct msg_reply *reply, const int *fds);
void wire_hold(struct wire *w, bool on); /* on: reads no requests (too many are in flight) */
