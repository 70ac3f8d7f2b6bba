// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Messages over a SOCK_SEQPACKET socket, each with one descriptor at most. What the other side
 * does not take yet waits in a queue of bounded length; who asks for answers stops to read
 * requests while it is full.
 */
#include "loop/loop.h"

struct packets;

struct packets_ops {
	/* fd: came with it, and is the callee's now; -1: none. The text is borrowed, and may be
	 * written to. < 0: the message is wrong, and the socket ends: ended() is called. */
	int (*packet)(void *data, size_t len, int fd, void *arg);
	void (*drained)(void *arg); /* the queue is empty again; may be NULL */
	/* Once, and last: the other side has ended it (0), or why it is ended here. Not called for
	 * packets_free(). */
	void (*ended)(int error, void *arg);
};

/* Owns fd from then on, also if it fails. max: of a message; more ends the socket. */
must_check int packets_new(struct loop *loop, int fd, size_t max, size_t queue_max,
                           const struct packets_ops *ops, void *arg, struct packets **ret);
/* Sends a message; with_fd (-1: none) stays the caller's. -EAGAIN: the queue is full; -EPIPE: the
 * socket has ended. */
must_check int packets_send(struct packets *p, const void *data, size_t len, int with_fd);
bool packets_is_idle(const struct packets *p);  /* nothing waits to be sent */
void packets_pause(struct packets *p, bool on); /* reads no more, or again */
void packets_free(struct packets *p);           /* NULL is fine; also in a callback */
