// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Logs the wall's decisions as events. */
#include "wall/msg.h"

#include <stdbool.h>

struct sandbox;

/* The wall is not trusted: numbers and names are checked. */
void network_note_decision(struct sandbox *s, const struct wall_decision *d);
/* network.c: learnt targets are not limited by the log's rate, so each policy has its own bound. */
bool network_may_learn(struct sandbox *s);
