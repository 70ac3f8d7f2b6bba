// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The door of a jail, and connections to its ports: open_door(), close_door() and dial() of struct
 * engine. */
#include "engine/engine.h"

#include <netinet/in.h>

must_check int egress_door_open(struct guest *g, int ret_fds[DOOR_SOCKETS], struct err *err);
must_check int egress_door_close(struct guest *g, struct err *err);
must_check int egress_door_dial(struct guest *g, int family, uint16_t port, int *ret_fd,
                                struct err *err);

/* Parts of it, for the doors of other engines. */
union egress_door_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};
typedef socklen_t (*egress_door_address_fn)(int family, uint16_t port,
                                            union egress_door_address *ret);

/* Runs fn in the guest's net namespace, and always returns to the host's. */
must_check int egress_door_inside(struct guest *g,
                                  int (*fn)(struct guest_host *host, void *arg, struct err *err),
                                  void *arg, struct err *err);
/* Opens them in the namespace that this thread is in. On failure the caller closes those that are
 * open. */
must_check int egress_door_open_sockets(egress_door_address_fn address, int ret_fds[DOOR_SOCKETS],
                                        uint16_t ret_ports[DOOR_SOCKETS], struct err *err);
/* Checks the result r of setting rules. fd is the socket that was used for it; it is closed
 * later. */
must_check int egress_door_check_rules(struct guest_host *host, int r, int fd, struct err *err);
