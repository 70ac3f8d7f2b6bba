// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The broker's starter (src/loop/starter.h) starts CRIU, since CRIU must have no seccomp filter and
 * the broker has one. The broker sends it an order of fixed size and a list of fds.
 */
#include "engine/jail/memory/criu.h"

/* In the broker; fills pid and pidfd. */
must_check int criu_order_send(struct guest_host *host, const struct criu_spec *spec,
                               const int control[2], struct criu *ret);
/* HOST_JOB_CRIU, in a child of the starter; arg is a struct guest_host. */
int criu_order_run(const struct starter_order *order, void *arg);
/* criu.c: becomes CRIU. */
_Noreturn void criu_run(struct guest_host *host, const struct criu_spec *spec, const int control[2],
                        int words_fd);
