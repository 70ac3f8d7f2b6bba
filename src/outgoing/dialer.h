// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Outgoing connections. The gateway cannot make any, since it may not call socket() or connect().
 * It asks the dialer, a separate process that resolves the name, checks that the address is
 * allowed, connects, and hands over the socket. If the dialer dies, its pending calls fail, and so
 * do new ones until the next dialer is there.
 */
#include "loop/loop.h"

struct dialer;

/* Called from the loop, never from inside dialer_dial(). The callee owns fd; on failure fd is -1
 * and why says why. */
typedef void (*dial_fn)(int fd, const char *why, void *arg);

struct dialer *dialer_new(struct loop *loop);
void dialer_attach(struct dialer *d, int link_fd); /* owns it; replaces an earlier one */
void dialer_free(struct dialer *d);                /* NULL is fine */
/* Returns a tag for dialer_cancel(). */
uint64_t dialer_dial(struct dialer *d, const char *host, uint16_t port, bool is_tenants, dial_fn fn,
                     void *arg);
void dialer_ping(struct dialer *d); /* asks whether it answers */
/* For how long there has been no dialer, or one that does not answer; 0: it owes no answer. */
uint64_t dialer_silent_us(const struct dialer *d);
void dialer_cancel(struct dialer *d, uint64_t tag); /* fn is not called; 0 and old tags are fine */
