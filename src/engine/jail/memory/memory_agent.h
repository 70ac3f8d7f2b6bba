// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The agent that a memory was saved with, and its program. When the daemon is upgraded, a sandbox
 * keeps the agent that it was started with, and so does a saved memory: /proc/1/exe in a copy must
 * lead to that program and not to a newer one.
 */
#include "base/digest.h"
#include "base/err.h"

#include <sys/types.h>

/* The agent that guests are started with here, from its program. */
must_check int memory_agent_set(int program_fd);
struct digest memory_agent_own(void);
/* Records which agent runs as pid, before a memory is saved into dir_fd. */
must_check int memory_agent_note(int dir_fd, pid_t pid);
/* Which one it was. */
must_check int memory_agent_read(int dir_fd, struct digest *ret);
/* Its program as a new memfd, from the images of a memory. -ENOENT: they do not have it. */
must_check int memory_agent_extract(int dir_fd, const struct digest *agent, int *ret_fd);
