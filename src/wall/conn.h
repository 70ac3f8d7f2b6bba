// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A TCP connection that a guest made, from the listener to its end:
 *
 *	accepted --> judged by address and port --+--> dialled --> pumped
 *	                  | more must be known     |
 *	                  +--> first bytes --+--TLS, other--> judged --+
 *	                                     +--HTTP--> proxied: each request is judged
 *	port 53 --> DNS
 *	a member of its group --> dialled by the gateway --> pumped
 *
 * A denied connection is reset.
 */
#include "wall/door.h"

struct conn;

void conn_accept(struct door *door, int listener_fd); /* all that wait there, within limits */
void conn_judge_again(struct door *door);             /* after a new policy: cuts what it forbids */
void conn_cut_all(struct door *door);
/* The gateway's answer to a WALL_DIAL. Takes fd if it is needed; -1 = none. why: borrowed. */
void conn_on_dialled(struct doors *all, uint64_t tag, int error, const char *why, int *fd);
