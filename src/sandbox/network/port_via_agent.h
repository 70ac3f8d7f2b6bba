// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A connection to a port of a vm, which no host process can dial: the agent dials, and the bytes go
 * over its link. The caller gets a socket, just as for a jail's port. After that the relay frees
 * itself when both directions have ended, or when either end is gone.
 */
#include "sandbox/model/sandbox.h"

struct port_via_agent;

/* Called once, unless it was cancelled: with a connected socket, which the callee owns, or -1 and
 * err. */
typedef void (*port_via_agent_fn)(int fd, const struct err *err, void *arg);

must_check int port_via_agent_open(struct sandbox *s, int family, uint16_t port,
                                   port_via_agent_fn fn, void *arg, struct port_via_agent **ret,
                                   struct err *err);
void port_via_agent_cancel(struct port_via_agent *r); /* before fn was called; NULL is fine */
