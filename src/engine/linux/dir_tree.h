// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Directory trees of our own: removing them whole, and visiting those named by a sandbox's id. */
#include "base/id.h"

/* Removes name below dir_fd and everything in it, at any depth and following no link. Blocks. 0,
 * also if it does not exist, or the first errno. */
must_check int dir_tree_remove(int dir_fd, const char *name);
/* Calls fn for each entry of dir_fd whose name is a sandbox's id. */
void dir_tree_each_id(int dir_fd, void (*fn)(const char *id, void *arg), void *arg);
