// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The broker's side of proto/quiet.h. A guest that is to be saved lets go of the host and is given
 * hold of it again; a copy gets hold of it for the first time. Whoever connects meanwhile finds a
 * listener and waits for the agent to come to it.
 *
 * The token is on disk (RUN/sandboxes/ID/quiet) from before the agent is told until after it
 * serves: a broker that finds it there gives the guest hold when somebody wants to connect.
 */
#include "engine/guest/guest.h"
#include "proto/quiet.h"

/* Asks for quiet. *ret_fd ends when it is; *ret_listen_fd is the listener that is to be next. */
must_check int agent_handover_ask(struct guest *g, const unsigned char token[QUIET_TOKEN_SIZE],
                                  int *ret_fd, int *ret_listen_fd, struct err *err);
/* Gives it hold: listen_fd, and status_fd for its "1" (or -1). Goes out at once, whether or not the
 * agent runs. In the net namespace of pidfd. */
must_check int agent_handover_end(struct guest *g, int pidfd,
                                  const unsigned char token[QUIET_TOKEN_SIZE], int listen_fd,
                                  int status_fd, struct err *err);
/* Keeps the token for a later broker: before the record of a copy, which has to be given hold. */
must_check int agent_handover_keep(const struct guest *g,
                                   const unsigned char token[QUIET_TOKEN_SIZE]);
void agent_handover_forget(struct guest *g); /* it serves */
/* Nobody answers at its listener: if that is because it is quiet, it gets hold. */
must_check int agent_handover_recover(struct guest *g, struct err *err);
