// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The first command in a machine is slow: its files must be read, and in emulation its code must be
 * translated. So a machine that nobody waits for yet, a spare or the seed of a warm copy, first
 * runs a command that does nothing. Its result does not matter: a template may have no shell.
 */
#include "sandbox/model/sandbox_private.h"

struct warm_up;

void warm_up_begin(struct sandbox *s); /* pool_on_warm() follows, from there or later */
void warm_up_end(struct sandbox *s);   /* and does not any more */
