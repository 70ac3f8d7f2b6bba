// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Runs a host program to its end, without a shell: mkfs.btrfs, mount helpers. Never with a path or
 * word from outside. */
#include "base/err.h"

/* Waits. 0 if it exited with 0; else err names the program, how it ended, and the last line that it
 * wrote to stderr. */
must_check int spawn_run(const char *const argv[], struct err *err);
