// SPDX-License-Identifier: Apache-2.0
#pragma once
/* How a forked child of the agent turns into a process of the sandbox. */
#include "agent/agent.h"
#include "agent/users/user.h"

/*
 * First thing in a child: signals as the kernel makes them, into the sandbox's cgroup. A frozen
 * cgroup holds the child here, which is right.
 */
must_check int become_member(const struct settings *s, struct err *err);
/* The same to root, who then makes files that are the user's and may open any. */
must_check int become_root_for(const struct settings *s, const struct identity *user,
                               struct err *err);
/* Last: drops to the user, for good. Afterwards the child is as powerful as user code. */
must_check int become_user(const struct settings *s, const struct identity *id, struct err *err);
