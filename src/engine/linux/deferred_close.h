// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Netlink sockets through which rules were removed. The kernel frees the rules an RCU grace period
 * later, 10 ms or more, and closing the socket earlier waits for that. So they are closed when it
 * is over.
 */
#include "loop/loop.h"

#define DEFERRED_MAX 256 /* with one more the oldest is closed, and that waited for */

struct deferred_close {
	struct loop_timer *timer;
	struct deferred_socket {
		int fd;
		uint64_t until_us;
	} sockets[DEFERRED_MAX]; /* the oldest first */
	size_t n;
};

void deferred_close_add(struct deferred_close *l, struct loop *loop, int fd); /* owns fd */
void deferred_close_done(struct deferred_close *l);                           /* zeros are fine */
