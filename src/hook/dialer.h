// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Connections out. The gateway cannot make any: it has no socket() and no connect(). It asks the
 * dialer, a process of its own that resolves the name, holds the address against what may be
 * reached, connects, and hands the socket over. A dialer that dies costs the calls under way; until
 * the next one is there, calls fail.
 */
#include "loop/loop.h"

struct dialer;

/* From the loop, never from inside dialer_dial(). fd is the callee's; else -1 and why. */
typedef void (*dial_fn)(int fd, const char *why, void *arg);

struct dialer *dialer_new(struct loop *loop);
void dialer_attach(struct dialer *d, int link_fd); /* owns it; replaces an earlier one */
void dialer_free(struct dialer *d);                /* NULL is fine */
/* Gives a tag for dialer_cancel(). */
uint64_t dialer_dial(struct dialer *d, const char *host, uint16_t port, dial_fn fn, void *arg);
void dialer_ping(struct dialer *d); /* asks whether it answers */
/* How long there has been no dialer, or one that does not answer; 0: it owes nothing. */
uint64_t dialer_silent_us(const struct dialer *d);
void dialer_cancel(struct dialer *d, uint64_t tag); /* fn is not called; 0 and old tags are fine */
