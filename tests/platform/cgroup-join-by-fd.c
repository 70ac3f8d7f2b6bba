// SPDX-License-Identifier: Apache-2.0
/*
 * A process without any privilege over cgroups joins one by writing "0" to a cgroup.procs that
 * root opened: the kernel asks who opened the file (5.16; CVE-2021-4197). So the agent can move
 * execs into the `user` group from inside its user namespace.
 */
#include "platform.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>

static int procs_fd;

static int join(void *arg)
{
	(void)arg;
	return write(procs_fd, "0", 1) == 1 ? 0 : errno;
}

static void try_tree(const char *tree)
{
	char dir[128], path[160];

	(void)snprintf(dir, sizeof(dir), "/sys/fs/cgroup/%s/platform.%d", tree, (int)getpid());
	if (mkdir(dir, 0755) < 0)
		SKIP("no such cgroup tree here");
	(void)snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	procs_fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(procs_fd >= 0);
	CHECK_INT(platform_in_userns(0, join, NULL, NULL), 0);
	(void)close(procs_fd);
	CHECK_INT(rmdir(dir), 0);
}

TEST_FORKED(a_stranger_joins_a_v1_group_through_roots_fd, 20)
{
	platform_need_root();
	try_tree("pids");
}

TEST_FORKED(a_stranger_joins_a_v2_group_through_roots_fd, 20)
{
	platform_need_root();
	try_tree(access("/sys/fs/cgroup/cgroup.procs", F_OK) == 0 ? "." : "unified");
}
