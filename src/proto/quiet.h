// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * How an agent disconnects from the host, so that it can be saved with all its processes, and how
 * it connects again: to the same host after the save, or to another after a restore.
 *
 *	broker --> QUIESCE token            a frame, the only one of its connection
 *	       <-- the end of the connection: nothing of the host's is open any more, neither in
 *	           the agent nor in a child that it has just forked
 *	broker --> struct quiet_renewal     a datagram to QUIET_NAME, with the fds below
 *	       <-- "1" on the second of them, once the first is served
 *
 * The agent binds QUIET_NAME before anything else runs and keeps it, so nobody inside can take that
 * name. The token in a datagram proves that its sender is the one who asked for quiet.
 */
#include <stdint.h>

#define QUIET_NAME       "cloche-quiet" /* abstract, in the sandbox's net namespace */
#define QUIET_TOKEN_SIZE 32

enum { QUIET_LISTEN_FD, QUIET_READY_FD, QUIET_CGROUP_FDS /* the first of them */ };

struct quiet_renewal {
	unsigned char token[QUIET_TOKEN_SIZE];
	uint64_t open_files; /* of execs from here on */
};
