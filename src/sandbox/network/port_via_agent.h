// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A connection to a port of a vm, which no host process can dial: the agent does, and the bytes go
 * over its link. To whoever asked it is a socket as one to a jail's port is. Once that is handed
 * over, a relay goes by itself: when both ways have ended, or either end is gone.
 */
#include "sandbox/model/sandbox.h"

struct port_via_agent;

/* Called once, unless it was cancelled: with a connected socket, the callee's, or -1 and err. */
typedef void (*port_via_agent_fn)(int fd, const struct err *err, void *arg);

must_check int port_via_agent_open(struct sandbox *s, int family, uint16_t port,
                                   port_via_agent_fn fn, void *arg, struct port_via_agent **ret,
                                   struct err *err);
void port_via_agent_cancel(struct port_via_agent *r); /* before fn was called; NULL is fine */
