// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which agent a memory was saved with, and its program. A sandbox keeps the agent that it was
 * started with when the daemon is upgraded, and so does a memory that was saved before: what
 * /proc/1/exe leads to in a copy has to be that program and no newer one.
 */
#include "base/digest.h"
#include "base/err.h"

#include <sys/types.h>

/* The agent that guests are started with here, from its program. */
must_check int memory_agent_set(int program_fd);
struct digest memory_agent_own(void);
/* Writes down, before a memory is saved into dir_fd, which agent runs as pid. */
must_check int memory_agent_note(int dir_fd, pid_t pid);
/* Which one it was. */
must_check int memory_agent_read(int dir_fd, struct digest *ret);
/* Its program as a new memfd, put together from the images of a memory. -ENOENT: it is not there.
 */
must_check int memory_agent_extract(int dir_fd, const struct digest *agent, int *ret_fd);
