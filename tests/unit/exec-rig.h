// SPDX-License-Identifier: Apache-2.0
#pragma once
/* One sandbox with its agent on a rig, for tests of what runs in it. */
#include "sandbox-rig.h"
#include "sandbox/model/sandbox_private.h"

extern struct rig rig;
extern struct sandbox *box; /* its name is "box" */
extern struct fake_agent *agent;

void box_start(void);
void box_restart(void);                 /* the gateway dies and comes back */
struct fake_channel *box_channel(void); /* the last one that was opened at the agent */
void box_say(const char *text);         /* on that one's stdout */
void box_check_output(struct exec *e, uint8_t kind, const char *wanted);
