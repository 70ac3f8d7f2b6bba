// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The boot id that the programs of a saved memory see in /proc/sys/kernel/random/boot_id. The
 * sandbox itself keeps it when it is resumed; a copy is another machine and gets a new one.
 */
#include "base/err.h"
#include "engine/guest/guest.h"

/* Records it, before a memory is saved into dir_fd. */
must_check int memory_boot_note(int dir_fd, const struct guest *g);
/* Restores it, before a memory is revived as g. A memory of an older cloche has none, and nothing
 * changes. */
must_check int memory_boot_resume(int dir_fd, const struct guest *g);
