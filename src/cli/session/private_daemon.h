// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A daemon of our own, for a `cloche run` where none is running: a child with its own run and data
 * directories and no port, which goes when we go, however that happens.
 */
#include "base/err.h"
#include "cli/remote/interrupt.h"

struct private_daemon;

/* Waits until it is ready. A signal meanwhile gives -EINTR. */
must_check int private_daemon_start(struct interrupt *interrupt, struct private_daemon **ret,
                                    struct err *err);
const char *private_daemon_url(const struct private_daemon *h);
void private_daemon_stop(struct private_daemon *h); /* waits until all is gone; NULL is fine */
DEFINE_FREEP(struct private_daemon, private_daemon_stop)
