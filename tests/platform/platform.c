// SPDX-License-Identifier: Apache-2.0
#include "platform.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

void platform_need_root(void)
{
	if (geteuid() != 0)
		SKIP("needs root");
}

static void write_map(pid_t pid, const char *name)
{
	char path[64], map[64];
	auto_fd int fd = -1;
	int len = snprintf(map, sizeof(map), "0 %d 65536\n", PLATFORM_FIRST_ID);

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_INT(write(fd, map, (size_t)len), len);
}

int platform_in_userns(unsigned long flags, int (*body)(void *arg),
                       void (*with_userns)(int userns_fd, void *arg), void *arg)
{
	int go[2], status;
	char path[64];
	pid_t pid;

	CHECK_INT(pipe2(go, O_CLOEXEC), 0);
	pid = (pid_t)syscall(SYS_clone, flags | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (pid < 0)
		SKIP("no user namespaces");
	if (pid == 0) {
		char c;

		(void)close(go[1]);
		if (read(go[0], &c, 1) != 1 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
			_exit(90);
		_exit(body(arg));
	}
	write_map(pid, "uid_map");
	write_map(pid, "gid_map");
	if (with_userns) {
		auto_fd int fd = -1;

		(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		CHECK(fd >= 0);
		with_userns(fd, arg);
	}
	CHECK_INT(write(go[1], "g", 1), 1);
	(void)close(go[0]);
	(void)close(go[1]);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}
