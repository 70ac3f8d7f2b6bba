// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The rules of a door: a table of nftables in the net namespace that this thread is in. Both calls
 * are one batch, so that no packet ever meets half of the rules.
 */
#include "engine/engine.h"

/* ports: of the door's sockets, 0 where there is none. Replaces the table if it is there. */
must_check int door_rules_install(const uint16_t ports[DOOR_SOCKETS]);
must_check int door_rules_remove(void); /* none there: fine */
