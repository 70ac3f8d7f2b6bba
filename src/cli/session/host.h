// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A daemon of our own, for a `cloche run` where none is running: a child with its own run and data
 * directories and no port, which goes when we go, however that happens.
 */
#include "base/err.h"
#include "cli/remote/interrupt.h"

struct host;

/* Waits until it is ready. A signal meanwhile gives -EINTR. */
must_check int host_start(struct interrupt *interrupt, struct host **ret, struct err *err);
const char *host_url(const struct host *h);
void host_stop(struct host *h); /* waits until all is gone; NULL is fine */
DEFINE_FREEP(struct host, host_stop)
