// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * DNS as a sandbox has it: names that its policy could let through, and of their addresses those
 * that it may dial. Every other name is refused here, and nobody outside ever hears of it.
 */
#include "wall/door.h"

struct question;

/* Who asks, and where the answer goes. */
struct stub_asker {
	bool is_tcp;
	/* Called once, maybe from inside stub_ask(); both are borrowed. */
	void (*answer)(const struct buf *answer, const struct stub_asker *asker);
	void *arg; /* by TCP: of the connection */
	int fd;    /* by UDP: the door's socket, and the sender */
	struct sockaddr_storage from;
	socklen_t from_len;
};

/*
 * A message that a guest sent; asker is copied. NULL: it was answered at once, or is none and gets
 * no answer (*ret_dropped).
 */
struct question *stub_ask(struct door *door, const void *data, size_t len,
                          const struct stub_asker *asker, bool *ret_dropped);
void stub_cancel(struct question *q); /* it gets no answer; NULL is fine */
void stub_on_datagrams(struct door *door, int fd);
void stub_cancel_all(struct door *door);
