// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The spawner's own side, and what it and the broker say to each other: a request and a reply at a
 * time, on a SOCK_SEQPACKET socket.
 */
#include "engine/guest/spawner.h"
#include "loop/starter.h"

struct spawner_request { /* with go_fd, status_fd and, or not, group_fd */
	uint32_t kind;   /* enum spawner_kind */
	uint32_t slot;
};

struct spawner_reply {  /* with pidfd and socket_fd of struct hatched */
	int32_t errnum; /* 0: the child is there */
	int32_t pid;
	int32_t helper; /* a child of the broker's that has ended, to be reaped; 0: there is none */
};

/* HOST_JOB_NAMESPACE, in a child of the starter; arg is a struct guest_host: makes T. "u" on its
 * socket asks the broker to write the maps, and a byte says that it has. */
_Noreturn int spawner_found_run(const struct starter_order *order, void *arg);
/* HOST_JOB_SPAWNER, likewise. Its fds are the socket and T. A first reply, without a request, tells
 * that it serves. */
_Noreturn int spawner_run(const struct starter_order *order, void *arg);
