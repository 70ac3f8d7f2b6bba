// SPDX-License-Identifier: Apache-2.0
#include "engine/linux/kernel_share.h"

#include "base/auto.h"

#include <inttypes.h>
#include <stdio.h>

#define OPEN_FILES_LEAST 256U /* of a process: a compiler or an interpreter works with that */

/* clang-format off */
const struct kernel_share_row kernel_share_rows[SHARE_COUNT] = {
	[SHARE_INOTIFY_INSTANCES] = {"inotify instances", "fs.inotify.max_user_instances", NULL, 16, 128},
	[SHARE_INOTIFY_WATCHES] = {"inotify watches", "fs.inotify.max_user_watches", NULL, 8192, 524288},
	[SHARE_TERMINALS] = {"terminals", "kernel.pty.max", "kernel.pty.reserve", 64, 256},
	[SHARE_OPEN_FILES] = {"open files", "fs.file-max", NULL, 1 << 20, UINT64_MAX},
};
/* clang-format on */

uint64_t kernel_sysctl(const char *name)
{
	uint64_t value = UINT64_MAX;
	char path[80];
	FILE *file;
	int n = snprintf(path, sizeof(path), "/proc/sys/%s", name);

	for (char *p = path + sizeof("/proc/sys/") - 1; n > 0 && *p; p++)
		if (*p == '.')
			*p = '/';
	file = fopen(path, "re");
	if (!file)
		return UINT64_MAX;
	if (fscanf(file, "%" SCNu64, &value) != 1 || value >= INT64_MAX)
		value = UINT64_MAX;
	(void)fclose(file);
	return value;
}

uint64_t kernel_share_there(enum kernel_share what)
{
	const struct kernel_share_row *row = &kernel_share_rows[what];
	uint64_t all = kernel_sysctl(row->sysctl);
	uint64_t reserve = row->reserve ? kernel_sysctl(row->reserve) : 0;

	if (all == UINT64_MAX || reserve == UINT64_MAX)
		return all;
	return all > reserve ? all - reserve : 0;
}

/* Never more than half, so that two sandboxes can have some. */
uint64_t kernel_share_of(uint64_t there, uint64_t sandboxes, uint64_t least, uint64_t most)
{
	uint64_t share;

	if (there == UINT64_MAX)
		return most;
	share = MAX(MIN(there / MAX(sandboxes, (uint64_t)1), most), least);
	return MAX(MIN(share, there / 2), (uint64_t)1);
}

void kernel_shares_read(uint32_t sandboxes, uint64_t ret[SHARE_COUNT])
{
	for (unsigned i = 0; i < SHARE_COUNT; i++)
		ret[i] = kernel_share_of(kernel_share_there(i), sandboxes,
		                         kernel_share_rows[i].least, kernel_share_rows[i].most);
}

uint32_t kernel_share_open_files(const uint64_t shares[SHARE_COUNT], uint32_t open_files,
                                 uint32_t pids)
{
	uint64_t each = shares[SHARE_OPEN_FILES] / MAX(pids, 1U);

	return (uint32_t)MIN((uint64_t)open_files, MAX(each, (uint64_t)OPEN_FILES_LEAST));
}
