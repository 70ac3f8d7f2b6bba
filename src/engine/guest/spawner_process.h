// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The spawner's own side, and its messages with the broker: one request and one reply at a time, on
 * a SOCK_SEQPACKET socket.
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

/* HOST_JOB_NAMESPACE, in a child of the starter; arg is a struct guest_host. Makes T. It sends "u"
 * on its socket to ask the broker to write the maps, and the broker answers with a byte. */
_Noreturn int spawner_found_run(const struct starter_order *order, void *arg);
/* HOST_JOB_SPAWNER, likewise. Its fds are the socket and T. It sends a first reply, without a
 * request, when it is ready. */
_Noreturn int spawner_run(const struct starter_order *order, void *arg);
