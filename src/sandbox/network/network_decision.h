// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the wall tells of its decisions, as events. */
#include "wall/msg.h"

#include <stdbool.h>

struct sandbox;

/* What the wall says is taken for hostile: numbers and names are checked. */
void network_note_decision(struct sandbox *s, const struct wall_decision *d);
/* network.c: what is learnt goes past the log's rate, so that each policy has a bound of its own.
 */
bool network_may_learn(struct sandbox *s);
