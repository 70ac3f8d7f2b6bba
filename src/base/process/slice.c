// SPDX-License-Identifier: Apache-2.0
#include "base/process/slice.h"

#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

void slice_shorten(void)
{
	struct sched_attr attr = {.size = sizeof(attr)};

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0)
		return;
	attr.sched_runtime = SLICE_NS;
	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
}
