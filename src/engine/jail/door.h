// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The door of a jail, and ports in: what the engine's table says of open_door(), close_door() and
 * dial(). */
#include "engine/engine.h"

must_check int door_open(struct guest *g, int ret_fds[DOOR_SOCKETS], struct err *err);
must_check int door_close(struct guest *g, struct err *err);
must_check int door_dial(struct guest *g, int family, uint16_t port, int *ret_fd, struct err *err);
