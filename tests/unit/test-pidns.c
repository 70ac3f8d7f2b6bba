// SPDX-License-Identifier: Apache-2.0
/* Who keeps a pid namespace from ending. */
#include "test.h"

#include "base/auto.h"
#include "engine/linux/pidns.h"
#include "engine/linux/syscalls.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t fork_sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			(void)pause();
	return pid;
}

/* The first process of a pid namespace, with a child. */
static pid_t make_pidns(void)
{
	struct clone_args args = {.flags = CLONE_NEWPID, .exit_signal = SIGCHLD};
	int ready[2];
	pid_t pid;
	char byte;

	CHECK_INT(pipe2(ready, O_CLOEXEC), 0);
	pid = sys_clone3(&args);
	if (pid == 0) {
		(void)fork_sleeper();
		(void)!write(ready[1], "1", 1);
		for (;;)
			(void)pause();
	}
	CHECK(pid > 0);
	CHECK_INT(read(ready[0], &byte, 1), 1);
	return pid;
}

TEST_FORKED(a_pid_namespace_is_held_by_the_child_of_a_stranger_until_he_reaps_it, 60)
{
	auto_fd int pidfd = -1;
	pid_t first, held;

	if (geteuid() != 0)
		SKIP("namespaces need root");
	first = make_pidns();
	CHECK(!pidns_is_held(first));
	pidfd = pidfd_open(first, 0);
	CHECK_INT(setns(pidfd, CLONE_NEWPID), 0);
	held = fork_sleeper();
	CHECK(pidns_is_held(first));
	CHECK_INT(kill(first, SIGKILL), 0); /* which kills that one too */
	CHECK_INT(waitid(P_PID, (id_t)held, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	CHECK(pidns_is_held(first));
	CHECK_INT(waitpid(held, NULL, 0), held);
	CHECK_INT(waitpid(first, NULL, 0), first);
}
