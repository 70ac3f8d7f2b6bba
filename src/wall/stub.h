// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * DNS as a sandbox has it: names that its policy could let through, and of their addresses those
 * that it may dial. Of every other name nobody outside ever hears: it has an address that is
 * nobody's, where a connection is told that it is denied.
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
bool stub_has_denied(const struct address *dialled); /* the name that led to it */
void stub_cancel(struct question *q);                /* it gets no answer; NULL is fine */
void stub_on_datagrams(struct door *door, int fd);
void stub_cancel_all(struct door *door);
