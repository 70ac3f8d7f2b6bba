// SPDX-License-Identifier: Apache-2.0
#pragma once
/* maps and smaps of a process, as CRIU is to see them. */
#pragma GCC visibility push(hidden)

/* fd: of one of the two, at its beginning. It is replaced by a corrected copy if CRIU cannot use it
 * as it is.
 * mem_fd: of smaps of a process that is saved and stands still, its memory, else -1. What may be
 * emptied at any time is emptied: random state must not be saved, else two copies would get the
 * same bytes. */
void show_mappings(int fd, int mem_fd);

#pragma GCC visibility pop
