// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The rules for a vm's card, like egress_rules.h for a jail, in the net namespace that this thread
 * is in. They are removed in the same way. */
#include "engine/engine.h"

must_check int card_rules_install(const uint16_t ports[DOOR_SOCKETS], int *ret_fd);
