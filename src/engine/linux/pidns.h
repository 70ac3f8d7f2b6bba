// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether the pid namespace of `first`, its first process, has a process whose parent is outside.
 * The namespace ends only when that parent has reaped it. `first` reaps all others; that may take
 * long too if they wait for a disk.
 */
bool pidns_is_held(pid_t first);
