// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The agent as the init of a vm: from the kernel's first root, where it is /init, to the sandbox's
 * own, where it then lives as it does in a jail.
 *
 *	/ of the kernel		agent, modules; reached by nobody afterwards
 *	  /disk/template	erofs, read-only	\
 *	  /disk/fittings	erofs, read-only	 > overlay = / of the sandbox
 *	  /disk/scratch		ext4			/
 *	  /cgroup		cgroup v2, of which execs get the group `user`
 *
 * Which disk is which its serial number says, and which port is ours its name (proto/port.h).
 */
#include "agent/agent.h"

/* Puts the root together and enters it; fills the settings that an engine would have given. */
must_check int init_boot(struct settings *s, struct err *err);
/* Switches the machine off; text is why, where something failed, or NULL. Does not return. */
_Noreturn void init_power_off(const struct settings *s, const char *text);
