// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The broker's side of proto/quiet.h. A guest that is to be saved disconnects from the host and is
 * connected again afterwards; a copy is connected for the first time. Connections that come
 * meanwhile find a listener and wait for the agent.
 *
 * The token is on disk (RUN/sandboxes/ID/quiet) from before the agent is asked until after it
 * serves again. A broker that finds it there reconnects the guest when somebody wants to connect.
 */
#include "engine/guest/guest.h"
#include "proto/quiet.h"

/* Asks for quiet. *ret_fd ends when the agent is quiet; *ret_listen_fd is the next listener. */
must_check int agent_handover_ask(struct guest *g, const unsigned char token[QUIET_TOKEN_SIZE],
                                  int *ret_fd, int *ret_listen_fd, struct err *err);
/* Reconnects it: sends listen_fd, and status_fd for its "1" (or -1), in the net namespace of pidfd.
 * Sent at once, whether or not the agent runs. */
must_check int agent_handover_end(struct guest *g, int pidfd,
                                  const unsigned char token[QUIET_TOKEN_SIZE], int listen_fd,
                                  int status_fd, struct err *err);
/* Keeps the token for a later broker, which may have to reconnect a copy. Written before the copy's
 * record. */
must_check int agent_handover_keep(const struct guest *g,
                                   const unsigned char token[QUIET_TOKEN_SIZE]);
void agent_handover_forget(struct guest *g); /* it serves */
/* Nobody answers at its listener: if that is because the agent is quiet, reconnects it. */
must_check int agent_handover_recover(struct guest *g, struct err *err);
