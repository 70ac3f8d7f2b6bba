// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a machine does for the first time takes it long: emulated, its code is translated, and its
 * files are read. So one that nobody waits for yet, a spare or the seed of a warm copy, runs a
 * command that does nothing, and who gets it finds it practised. Whatever comes of that is of no
 * importance: a template may have no shell.
 */
#include "sandbox/model/sandbox_private.h"

struct warm_up;

void warm_up_begin(struct sandbox *s); /* pool_on_warm() follows, from there or later */
void warm_up_end(struct sandbox *s);   /* and does not any more */
