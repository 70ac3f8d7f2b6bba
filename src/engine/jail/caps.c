// SPDX-License-Identifier: Apache-2.0
/*
 * Capabilities: all of them are over the sandbox's own user namespace, and still most are dropped,
 * because each opens kernel code that a sandbox has no use for. Under no_new_privs an exec gains
 * none that the process did not have, so the agent must hold what it passes on to execs as root.
 */
#include "engine/jail/jail_child.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define FOR_FILES_AND_USERS                                                                        \
	(BIT64(CAP_CHOWN) | BIT64(CAP_DAC_OVERRIDE) | BIT64(CAP_FOWNER) | BIT64(CAP_FSETID) |      \
	 BIT64(CAP_SETUID) | BIT64(CAP_SETGID) | BIT64(CAP_KILL))
#define OF_ROOT (FOR_FILES_AND_USERS | BIT64(CAP_NET_BIND_SERVICE) | BIT64(CAP_SETFCAP))
/* SYS_PTRACE finds the processes of an exec; SETPCAP empties the bounding set of an exec as user.
 */
#define OF_AGENT (OF_ROOT | BIT64(CAP_SYS_PTRACE) | BIT64(CAP_SETPCAP))

uint64_t jail_caps_of_root(void)
{
	return OF_ROOT;
}

int jail_keep_caps(uint64_t caps, uint64_t inheritable, struct err *err)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	for (unsigned i = 0; i < ARRAY_SIZE(data); i++) {
		data[i].effective = data[i].permitted = (uint32_t)(caps >> 32 * i);
		data[i].inheritable = (uint32_t)(inheritable >> 32 * i);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, ERR_INTERNAL, errno, "no_new_privs");
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot clear the ambient set");
	for (unsigned cap = 0; cap < 64; cap++) {
		if (caps & BIT64(cap) || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL) /* past this kernel's last one */
			break;
		return err_set(err, ERR_INTERNAL, errno, "cannot drop capability %u", cap);
	}
	if (syscall(SYS_capset, &header, data) < 0)
		return err_set(err, ERR_INTERNAL, errno, "capset");
	return 0;
}

int jail_drop_caps(struct jail *jail, struct err *err)
{
	(void)jail;
	return jail_keep_caps(OF_AGENT, /* inheritable= */ 0, err);
}
