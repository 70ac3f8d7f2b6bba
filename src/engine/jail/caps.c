// SPDX-License-Identifier: Apache-2.0
/*
 * Capabilities. All are over the sandbox's own user namespace only. Still most are dropped, because
 * each exposes kernel code that a sandbox does not need. Under no_new_privs an exec gains no
 * capability that the process did not have, so the agent must hold those that execs as root get.
 */
#include "engine/jail/jail_child.h"

#include "base/process/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>

#define FOR_FILES_AND_USERS                                                                        \
	(BIT64(CAP_CHOWN) | BIT64(CAP_DAC_OVERRIDE) | BIT64(CAP_FOWNER) | BIT64(CAP_FSETID) |      \
	 BIT64(CAP_SETUID) | BIT64(CAP_SETGID) | BIT64(CAP_KILL))
#define OF_ROOT (FOR_FILES_AND_USERS | BIT64(CAP_NET_BIND_SERVICE) | BIT64(CAP_SETFCAP))
/* The agent needs SYS_PTRACE to find the processes of an exec, and SETPCAP to empty the bounding
 * set of an exec as user.
 */
#define OF_AGENT (OF_ROOT | BIT64(CAP_SYS_PTRACE) | BIT64(CAP_SETPCAP))

uint64_t jail_caps_of_root(void)
{
	return OF_ROOT;
}

int jail_keep_caps(uint64_t caps, uint64_t inheritable, struct err *err)
{
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, ERR_INTERNAL, errno, "no_new_privs");
	r = capabilities_bound(caps);
	if (r == 0)
		r = capabilities_keep(caps, inheritable);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot drop capabilities") : 0;
}

int jail_drop_caps(struct jail *jail, struct err *err)
{
	(void)jail;
	return jail_keep_caps(OF_AGENT, /* inheritable= */ 0, err);
}
