// SPDX-License-Identifier: Apache-2.0
/*
 * A v2 tree without controllers, as hybrid hosts have it, still freezes, kills (5.14) and counts
 * CPU time, and clone3() can start a process in it.
 */
#include "platform.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int dir_fd;

static void put(const char *file, const char *text)
{
	auto_fd int fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		SKIP("this kernel's cgroups lack the file");
	CHECK_INT(write(fd, text, strlen(text)), strlen(text));
}

static void get(const char *file, char *text, size_t size)
{
	auto_fd int fd = openat(dir_fd, file, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, size - 1);

	CHECK(n >= 0);
	text[n] = '\0';
}

TEST_FORKED(a_v2_group_without_controllers_starts_freezes_and_kills, 20)
{
	const char *tree = access("/sys/fs/cgroup/cgroup.procs", F_OK) == 0
	                           ? "/sys/fs/cgroup"
	                           : "/sys/fs/cgroup/unified";
	struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
	char dir[128], text[1024] = "";
	int status;
	pid_t pid;

	platform_need_root();
	(void)snprintf(dir, sizeof(dir), "%s/platform.%d", tree, (int)getpid());
	if (mkdir(dir, 0755) < 0)
		SKIP("no cgroup v2 tree");
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	args.cgroup = (uint64_t)dir_fd;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	CHECK(pid >= 0);
	if (pid == 0)
		for (;;)
			(void)pause();
	put("cgroup.freeze", "1");
	while (!strstr(text, "frozen 1"))
		get("cgroup.events", text, sizeof(text));
	get("cpu.stat", text, sizeof(text));
	CHECK(strstr(text, "usage_usec") != NULL);
	put("cgroup.kill", "1"); /* frozen or not */
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(WTERMSIG(status), SIGKILL);
	CHECK_INT(rmdir(dir), 0);
}
