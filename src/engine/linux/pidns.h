// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether a process in the pid namespace of `first`, its first process, is the child of one
 * outside. The namespace ends only when that parent has reaped it; all others are reaped by
 * `first`, which may take its time too when they wait for a disk.
 */
bool pidns_is_held(pid_t first);
