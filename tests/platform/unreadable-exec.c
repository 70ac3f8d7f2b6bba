// SPDX-License-Identifier: Apache-2.0
/*
 * A process that runs a file which its user namespace may not read belongs, for ptrace and /proc,
 * to the namespace outside: even root inside, with CAP_SYS_PTRACE, cannot look into it. So the
 * agent's memfd has mode 0111.
 */
#include "platform.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int exec_fd;

/* 1: its environment was opened. 2: its program was seen. */
static int look_into_it(void *arg)
{
	char *const argv[] = {unconst("sleep"), unconst("100"), NULL};
	char *const env[] = {NULL};
	char path[64], text[64];
	int fd, result = 0;
	int ends[2];
	pid_t pid;

	(void)arg;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return 32;
	pid = fork();
	if (pid == 0) {
		(void)execveat(exec_fd, "", argv, env, AT_EMPTY_PATH);
		_exit(1);
	}
	(void)close(ends[1]);
	if (read(ends[0], text, 1) != 0) /* ends with the exec */
		return 33;
	(void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		result |= 1;
	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (readlink(path, text, sizeof(text)) >= 0)
		result |= 2;
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return result;
}

TEST_FORKED(an_unreadable_program_is_closed_to_root_inside, 20)
{
	char chunk[65536];
	ssize_t n;
	int from = open("/bin/sleep", O_RDONLY | O_CLOEXEC);

	platform_need_root();
	exec_fd = memfd_create("sleep", MFD_CLOEXEC);
	CHECK(from >= 0 && exec_fd >= 0);
	while ((n = read(from, chunk, sizeof(chunk))) > 0)
		CHECK_INT(write(exec_fd, chunk, (size_t)n), n);
	CHECK_INT(fchmod(exec_fd, 0555), 0);
	/* An fd that is open for writing cannot be run. */
	(void)snprintf(chunk, sizeof(chunk), "/proc/self/fd/%d", exec_fd);
	n = open(chunk, O_RDONLY | O_CLOEXEC);
	(void)close(exec_fd);
	exec_fd = (int)n;
	CHECK_INT(platform_in_userns(0, look_into_it, NULL, NULL), 3); /* the control */
	CHECK_INT(fchmod(exec_fd, 0111), 0);
	CHECK_INT(platform_in_userns(0, look_into_it, NULL, NULL), 0);
}
