// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the programs of this directory share: a child in a user namespace of its own, whose ids the
 * parent maps. */
#include "test.h"

#include "base/auto.h"

#include <sys/types.h>

#define PLATFORM_FIRST_ID 0x6f000000 /* a range that nothing else uses */

void platform_need_root(void); /* or skips */
/*
 * Runs body as root of a new user namespace (and the namespaces of flags, CLONE_NEW*) that maps
 * 65536 ids; with_userns, if not NULL, is run by the parent before that, with the child's user
 * namespace. What body gives is the child's exit status.
 */
int platform_in_userns(unsigned long flags, int (*body)(void *arg),
                       void (*with_userns)(int userns_fd, void *arg), void *arg);
