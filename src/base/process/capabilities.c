// SPDX-License-Identifier: Apache-2.0
#include "base/process/capabilities.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int capabilities_bound(uint64_t caps)
{
	for (unsigned cap = 0; cap < 64; cap++) {
		if (caps & BIT64(cap) || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL) /* past this kernel's last one */
			break;
		return -errno;
	}
	return 0;
}

int capabilities_keep(uint64_t caps, uint64_t inheritable)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &header, sets) < 0)
		return -errno;
	for (unsigned i = 0; i < ARRAY_SIZE(sets); i++) {
		sets[i].permitted &= (uint32_t)(caps >> 32 * i);
		sets[i].effective = sets[i].permitted;
		sets[i].inheritable = (uint32_t)(inheritable >> 32 * i);
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &header, sets) < 0)
		return -errno;
	return 0;
}
