// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The daemon's parts, forked and never exec'ed. A child keeps the fds that it is given and closes
 * all others. Over its control socket it reports once how its start went, then sends a byte every
 * few seconds to show that it is alive; the end of that socket tells it that the launcher is dead.
 */
#include "daemon/site.h"
#include "loop/loop.h"

#include <signal.h>

struct child_report { /* SOCK_SEQPACKET, one message */
	uint32_t is_ready;
	struct err err; /* why not */
};

/* To the gateway: stop as on SIGTERM, but delete nothing, since another gateway follows. */
#define CHILD_LEAVE_SIGNAL SIGUSR1

enum child_part {
	CHILD_BROKER = 'b',
	CHILD_DIALER = 'd',
	CHILD_WALL = 'w',
	CHILD_MEMBER = 'm', /* only in a cluster */
	CHILD_GATEWAY = 'g'
};

/* To the gateway: which part was lost, and why. Sent over its control socket, with a socket to the
 * successor. If the part cannot be lost alone, the next gateway is told at its start. */
struct child_loss {
	uint8_t part; /* of enum child_part; 0: nobody */
	uint8_t was_stuck;
};

enum child_exit { CHILD_OK = 0, CHILD_FAILED = 1 };

/* Closes all fds but stderr and these (-1 is skipped); stdin and stdout become /dev/null; signals
 * and their masks are reset. */
void child_begin(const char *name, const struct config *config, const int *keep, size_t n_keep);
void child_disregard(int signo); /* without SIG_IGN, which would pass on to programs inside */
void child_report(int control_fd, const struct err *err); /* NULL = ready */
/* From now on the loop sends beats to the launcher's watchdog, while *control_fd is open. */
void child_beat(struct loop *loop, const int *control_fd, const struct config *config);

/* Each runs a whole process; the result is its exit code. They own the fds. */
int broker_main(const struct site *site, int gateway_fd, int control_fd);
struct gateway_fds {
	int broker, dialer, wall, control, key;
	int member;             /* -1: this node is alone */
	struct child_loss lost; /* before this start */
};
int gateway_main(const struct site *site, const struct gateway_fds *fds);
int dialer_main(const struct site *site, int link_fd, int control_fd);
int wall_main(const struct site *site, int link_fd, int control_fd);
int member_main(const struct site *site, int link_fd, int control_fd);
