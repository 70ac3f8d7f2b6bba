// SPDX-License-Identifier: Apache-2.0
#include "engine/linux/spawner_limits.h"

#include "base/fd.h"
#include "base/units.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

/* The kernel counts these per user, over all its processes. */
static const struct {
	__rlimit_resource_t what;
	uint64_t least, most; /* of one sandbox */
} rows[] = {
	{RLIMIT_SIGPENDING, 1024, 8192},      /* timers among them */
	{RLIMIT_MSGQUEUE, 100 * KIB, 819200}, /* bytes; 100 KiB hold one queue of the usual size */
	{RLIMIT_MEMLOCK, 1 * MIB, 8 * MIB},   /* of segments of shared memory */
};

/* Raises the limit to the maximum for this process, and returns it. */
static struct rlimit raise_limit(__rlimit_resource_t what)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	if (setrlimit(what, &limit) == 0)
		return limit;
	if (getrlimit(what, &limit) < 0) /* a host that lets nobody raise it */
		limit.rlim_max = RLIM_INFINITY;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(what, &limit);
	return limit;
}

void spawner_limits_raise(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		(void)raise_limit(rows[i].what);
	(void)raise_limit(RLIMIT_NPROC); /* control groups count processes */
}

void spawner_limits_lower(uint32_t sandboxes)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rlimit limit = raise_limit(rows[i].what);

		limit.rlim_cur =
			kernel_share_of(limit.rlim_max, sandboxes, rows[i].least, rows[i].most);
		(void)setrlimit(rows[i].what, &limit);
	}
}

void spawner_limits_write(const uint64_t shares[SHARE_COUNT])
{
	static const struct {
		const char *path;
		enum kernel_share what;
	} files[] = {
		{"/proc/sys/user/max_inotify_instances", SHARE_INOTIFY_INSTANCES},
		{"/proc/sys/user/max_inotify_watches", SHARE_INOTIFY_WATCHES},
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char text[24];

		(void)snprintf(text, sizeof(text), "%" PRIu64, shares[files[i].what]);
		(void)!fd_write_file(AT_FDCWD, files[i].path, text);
	}
}
