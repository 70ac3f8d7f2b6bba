// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The rules behind a vm's card: as egress_rules.h is for a jail, in the net namespace that this
 * thread is in. Removed as those are. */
#include "engine/engine.h"

must_check int card_rules_install(const uint16_t ports[DOOR_SOCKETS], int *ret_fd);
