// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The rules of a door: an nftables table in the net namespace that this thread is in. Each call is
 * one batch, so no packet ever meets half of the rules.
 */
#include "engine/engine.h"

/* ports: of the door's sockets, 0 for none. Replaces the table if there is one. */
/* *ret_fd is a socket that is better closed later (deferred_close.h), or -1; also on failure. */
must_check int egress_rules_install(const uint16_t ports[DOOR_SOCKETS], int *ret_fd);
must_check int egress_rules_remove(int *ret_fd); /* none there: fine */
