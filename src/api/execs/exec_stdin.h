// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "sandbox/exec/exec.h"

/*
 * Writes input (which it takes over) to the exec's stdin as there is room, then closes stdin if
 * told to. Lives on its own, so that a detached exec gets all of it; ends quietly when the exec
 * does or reads no more.
 */
void stdin_feed(struct exec *e, char *input, size_t len, bool closes);
