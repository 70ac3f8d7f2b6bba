// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The wall: the only way from sandboxes to the network. It is a separate process, because it
 * handles bytes of guests and of the internet; it has no access to the gateway's keys and database.
 * The gateway tells it which doors there are and what may pass them (wall/msg.h).
 */
#include "net/match/range.h"
#include "wall/transport/resolver.h"
#include "wall/transport/secure.h"

struct wall_process;

struct wall_config {
	struct loop *loop;
	int link_fd;                     /* to the gateway; owned */
	struct resolver_config resolver; /* its loop is filled in */
	struct secure *secure;           /* owned; NULL: TLS is not opened */
	struct range_site site;   /* without the host's own addresses, which it learns itself */
	uint32_t connections_max; /* of a sandbox */
	size_t fds_max;           /* that the process may have */
	loop_fn lost;             /* the gateway is gone */
	void *arg;
};

must_check int wall_process_new(const struct wall_config *config, struct wall_process **ret,
                                struct err *err);
void wall_process_free(struct wall_process *w); /* NULL is fine */
