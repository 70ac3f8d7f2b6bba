// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Netlink sockets by which rules were removed. The kernel frees those a grace period of all CPUs
 * later, 10 ms and more, and who closes the socket before waits for it; so they are closed when it
 * is over.
 */
#include "loop/loop.h"

#define LATE_MAX 256 /* with one more the oldest is closed, and that waited for */

struct late {
	struct loop_timer *timer;
	struct late_socket {
		int fd;
		uint64_t until_us;
	} sockets[LATE_MAX]; /* the oldest first */
	size_t n;
};

void late_close(struct late *l, struct loop *loop, int fd); /* owns fd */
void late_done(struct late *l);                             /* zeros are fine */
