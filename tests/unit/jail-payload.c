// SPDX-License-Identifier: Apache-2.0
/*
 * Stands in for the agent in the jail's own tests: pid 1 of a sandbox that runs what it is told.
 * A connection sends "root COMMAND" or "user COMMAND" and its end; the output and then the
 * connection's end come back. The command runs in the `user` cgroup with the rights that an exec
 * of the real agent has.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void join_groups(void)
{
	const char *p = getenv("CLOCHE_CGROUP_FDS");

	while (p && *p) {
		char *end;
		int fd = (int)strtol(p, &end, 10);

		if (write(fd, "0", 1) != 1)
			_exit(98);
		(void)close(fd);
		p = *end == ',' ? end + 1 : end;
	}
}

static void keep_caps_of_root(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	uint64_t caps = strtoull(getenv("CLOCHE_CAPS_ROOT"), NULL, 16);
	struct __user_cap_data_struct data[2] = {
		{.effective = (uint32_t)caps, .permitted = (uint32_t)caps},
		{.effective = (uint32_t)(caps >> 32), .permitted = (uint32_t)(caps >> 32)}};

	if (syscall(SYS_capset, &header, data) < 0)
		_exit(97);
}

static void run(int conn, const char *line, int listen_fd)
{
	char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	char *const env[] = {path, NULL};

	(void)close(listen_fd);
	join_groups();
	if (strncmp(line, "user ", 5) == 0) {
		if (setgroups(0, NULL) < 0 || setresgid(1000, 1000, 1000) < 0 ||
		    setresuid(1000, 1000, 1000) < 0)
			_exit(96);
	} else {
		keep_caps_of_root();
	}
	(void)dup2(conn, STDOUT_FILENO);
	(void)dup2(conn, STDERR_FILENO);
	(void)close(conn);
	(void)execle("/bin/sh", "sh", "-c", line + 5, NULL, env);
	_exit(127);
}

int main(void)
{
	int listen_fd = (int)strtol(getenv("CLOCHE_LISTEN_FD"), NULL, 10);
	int ready_fd = (int)strtol(getenv("CLOCHE_READY_FD"), NULL, 10);

	(void)signal(SIGCHLD, SIG_IGN);
	if (write(ready_fd, "1", 1) != 1)
		return 1;
	(void)close(ready_fd);
	for (;;) {
		int conn = accept(listen_fd, NULL, NULL);
		char line[8192];
		size_t len = 0;
		ssize_t n;

		if (conn < 0)
			return 2;
		while ((n = read(conn, line + len, sizeof(line) - 1 - len)) > 0)
			len += (size_t)n;
		line[len] = '\0';
		if (strncmp(line, "exit ", 5) == 0)
			_exit((int)strtol(line + 5, NULL, 10));
		if (len >= 5 && fork() == 0)
			run(conn, line, listen_fd);
		(void)close(conn);
	}
}
