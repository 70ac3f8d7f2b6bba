// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a `cloche run` with a daemon of its own left when it, its keeper and its daemon were all
 * killed at once: a directory, and in it perhaps a sandbox that still runs.
 */

#define LEFTOVER_PREFIX "/var/tmp/cloche-run."

/* Removes all such; what is in use by a living run, or is not root's, is not touched. */
void leftover_sweep(void);
