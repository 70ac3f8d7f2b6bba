// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The DNS server that a sandbox sees. It answers for names that the policy could allow, with those
 * of their addresses that may be dialled. No resolver ever sees any other name: it gets an unused
 * address, where a connection is told that it is denied.
 */
#include "wall/door.h"

struct question;

/* The asker, and where the answer goes. */
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
 * Handles a guest's message; asker is copied. NULL: it was answered at once, or it is not a query
 * and gets no answer (*ret_dropped).
 */
struct question *stub_ask(struct door *door, const void *data, size_t len,
                          const struct stub_asker *asker, bool *ret_dropped);
bool stub_has_denied(const struct address *dialled); /* the name that led to it */
/* The name that has this address inside, if a rule has a key for SSH on that port; else NULL. */
const struct hostname *stub_ssh_name(const struct door *door, const struct address *dialled,
                                     uint16_t port);
void stub_cancel(struct question *q); /* it gets no answer; NULL is fine */
void stub_on_datagrams(struct door *door, int fd);
void stub_cancel_all(struct door *door);
