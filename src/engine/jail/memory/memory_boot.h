// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which boot the programs of a saved memory believe in: /proc/sys/kernel/random/boot_id as they see
 * it. The sandbox itself goes on with it, and a copy, which is another machine, has one of its own.
 */
#include "base/err.h"
#include "engine/guest/guest.h"

/* Writes it down, before a memory is saved into dir_fd. */
must_check int memory_boot_note(int dir_fd, const struct guest *g);
/* Before a memory is revived as g. A memory without one, of an older cloche, changes nothing. */
must_check int memory_boot_resume(int dir_fd, const struct guest *g);
