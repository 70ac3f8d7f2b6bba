// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <assert.h>
#include <string.h>

static const char *const names[] = {
	[WALL_USER_NS] = "user_namespace",     [WALL_PID_NS] = "pid_namespace",
	[WALL_MOUNT_NS] = "mount_namespace",   [WALL_NET_NS] = "net_namespace",
	[WALL_IPC_NS] = "ipc_namespace",       [WALL_UTS_NS] = "uts_namespace",
	[WALL_CGROUP_NS] = "cgroup_namespace", [WALL_UID_RANGE] = "uid_range",
	[WALL_PIVOT_ROOT] = "pivot_root",      [WALL_CAPABILITIES] = "capabilities",
	[WALL_NO_NEW_PRIVS] = "no_new_privs",  [WALL_SECCOMP] = "seccomp",
	[WALL_MASKED_PROC] = "masked_proc",    [WALL_MEMORY_LIMIT] = "memory_limit",
	[WALL_CPU_LIMIT] = "cpu_limit",        [WALL_PIDS_LIMIT] = "pids_limit",
	[WALL_DISK_LIMIT] = "disk_limit",      [WALL_INODE_LIMIT] = "inode_limit",
	[WALL_NET_LINKLESS] = "net_linkless",  [WALL_OWN_KERNEL] = "own_kernel",
	[WALL_HARDWARE] = "hardware",          [WALL_MEMORY_SNAPSHOTS] = "memory_snapshots",
};
static_assert(ARRAY_SIZE(names) == WALL_COUNT, "a wall has no name");

const char *wall_name(enum wall wall)
{
	assert(wall < WALL_COUNT);
	return names[wall];
}

const struct engine *engine_find(uint32_t number)
{
	for (const struct engine *const *e = engines; *e; e++)
		if ((*e)->number == number)
			return *e;
	return NULL;
}

const struct engine *engine_find_name(const char *name)
{
	for (const struct engine *const *e = engines; *e; e++)
		if (strcmp((*e)->name, name) == 0)
			return *e;
	return NULL;
}

const char *engine_name(uint32_t number)
{
	const struct engine *e = engine_find(number);

	return e ? e->name : "none";
}

const struct engine_traits *engine_traits(uint32_t number)
{
	const struct engine *e = engine_find(number);

	assert(e);
	return &e->traits;
}
