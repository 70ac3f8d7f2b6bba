// SPDX-License-Identifier: Apache-2.0
#include "daemon/memory.h"

#include <malloc.h>
#include <stddef.h>

#define LARGE     (128 * 1024)              /* gets its own mapping, which is freed with it */
#define SLACK     ((size_t)4 * 1024 * 1024) /* free memory that may stay */
#define SLACK_TOP (1024 * 1024)             /* the same at the heap's end */

void memory_prepare(void)
{
	/* Once set, they stay fixed. Else each large block that is freed raises both, up to 64
	 * MiB. */
	(void)mallopt(M_MMAP_THRESHOLD, LARGE);
	(void)mallopt(M_TRIM_THRESHOLD, SLACK_TOP);
}

void memory_give_back(void)
{
	if (mallinfo2().fordblks > SLACK)
		(void)malloc_trim(SLACK_TOP);
}
