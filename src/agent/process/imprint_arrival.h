// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The imprint of a kernel's memory, as its writer hands it over at the socket of sudo
 * (sudo_socket.h). It goes to the host as it is, on the kernel's channel: no byte of it is read
 * here. What is looked at is what only the agent sees: whether anything else runs in the sandbox.
 * An imprint has one process, so with another one the host must save them all.
 */
#include "agent/agent.h"

#define IMPRINT_TIME_US 20000000 /* to write it; the gateway waits longer */

/* A writer begins, for the kernel with that tag. False: it need not. */
bool imprint_arrival_begin(struct agent *a, const char *tag, pid_t writer);
/* It has ended; errnum 0: the imprint is whole, and is the one fd. Owns the fds. */
void imprint_arrival_end(struct agent *a, const char *tag, int errnum, const int *fds,
                         size_t n_fds);
