// SPDX-License-Identifier: Apache-2.0
/* The child that the agent forks before it is asked to. */
#include "agent-host.h"
#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#define DEADLINE_US (UINT64_C(20000000) * test_patience())

/* "S 123": its state and its parent; "" when it is gone. */
static void read_stat(pid_t pid, char ret[32])
{
	char path[48], text[512];
	const char *p = NULL;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) >= 0)
		p = strrchr(text, ')');
	(void)snprintf(ret, 32, "%.31s", p ? p + 2 : "");
}

static pid_t parent_of(pid_t pid)
{
	char stat[32];

	read_stat(pid, stat);
	return stat[0] ? (pid_t)strtol(stat + 2, NULL, 10) : 0;
}

static bool has_name(pid_t pid, const char *name)
{
	char path[48], text[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	return fd_read_file(AT_FDCWD, path, text, sizeof(text)) >= 0 && strcmp(text, name) == 0;
}

/* A process of that name whose parent is our child, the agent. */
static pid_t find_standby(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	pid_t found = 0;

	CHECK(dir != NULL);
	while (!found && (e = readdir(dir))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid > 0 && has_name(pid, "cloche-standby") &&
		    parent_of(parent_of(pid)) == getpid())
			found = pid;
	}
	(void)closedir(dir);
	return found;
}

static pid_t await_standby(void)
{
	uint64_t until_us = clock_steady_us() + DEADLINE_US;
	pid_t pid;

	while (!(pid = find_standby()))
		CHECK(clock_steady_us() < until_us);
	return pid;
}

static void await_state(pid_t pid, char state)
{
	uint64_t until_us = clock_steady_us() + DEADLINE_US;
	char stat[32];

	do {
		CHECK(clock_steady_us() < until_us);
		read_stat(pid, stat);
	} while (stat[0] != state);
}

TEST_FORKED(an_exec_after_a_pause_is_the_process_that_waited_for_it, 60)
{
	struct told t;
	pid_t pid;

	host_start();
	pid = await_standby();
	host_exec(&t, "echo $$; ls /proc/$$/fd | tr '\\n' ' '; read x; echo $?; exit 3");
	CHECK_INT(t.pid, pid);
	CHECK_INT(strtol(buf_str(&t.out), NULL, 10), pid);
	CHECK(strstr(buf_str(&t.out), "\n0 1 2 "));
	CHECK(strstr(buf_str(&t.out), "1\n")); /* its stdin is empty */
	CHECK_INT(t.exit.how, EXIT_CODE);
	CHECK_INT(t.exit.value, 3);
}

TEST_FORKED(a_standby_that_is_stopped_or_killed_is_done_without, 60)
{
	static const struct {
		int signal;
		char state;
	} cases[] = {{SIGSTOP, 'T'}, {SIGKILL, '\0'}};

	host_start();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		pid_t pid = await_standby();
		struct told t;

		CHECK_INT(kill(pid, cases[i].signal), 0);
		await_state(pid, cases[i].state);
		host_exec(&t, "echo fine");
		CHECK_STR(buf_str(&t.out), "fine\n");
		CHECK(t.pid != (uint32_t)pid);
		told_done(&t);
		host_await_death(pid);
	}
}

/* It is held where it dies, as it may be on a busy host for want of a CPU. */
TEST_FORKED(a_standby_that_is_about_to_die_is_done_without, 60)
{
	struct told t;
	pid_t pid;
	int status;

	host_start();
	pid = await_standby();
	CHECK_INT(ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXIT), 0);
	CHECK_INT(kill(pid, SIGKILL), 0);
	CHECK_INT(waitpid(pid, &status, __WALL), pid);
	CHECK_INT(status >> 8, SIGTRAP | PTRACE_EVENT_EXIT << 8);
	host_exec(&t, "echo fine");
	CHECK_STR(buf_str(&t.out), "fine\n");
	CHECK(t.pid != (uint32_t)pid);
	told_done(&t);
	CHECK_INT(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
	host_await_death(pid);
}

TEST_FORKED(a_standby_keeps_no_pipe_of_a_running_exec_open, 60)
{
	struct start s = host_script("cat");
	struct told t = {0};

	host_start();
	s.has_stdin = true;
	host_run(1, &s);
	host_gather(1, &t, told_started);
	(void)await_standby();
	host_send(FRAME_INPUT, 1, "x", 1);
	host_send(FRAME_INPUT_END, 1, NULL, 0);
	host_gather(1, &t, told_closed);
	CHECK_STR(buf_str(&t.out), "x");
	CHECK_INT(t.exit.how, EXIT_CODE);
}

TEST_FORKED(a_start_that_is_too_long_for_the_standby_is_forked, 60)
{
	auto_free char *word = xnew0n(char, 40001);
	auto_free char *variable = NULL;
	struct start s = host_script("echo ${#LONG}");
	char *env[2] = {0};
	struct told t;

	host_start();
	(void)await_standby();
	memset(word, 'x', 40000);
	variable = xasprintf("LONG=%s", word);
	env[0] = variable;
	s.env = env;
	s.envc = 1;
	host_call(&t, &s, NULL, 0);
	CHECK_STR(buf_str(&t.out), "40000\n");
}
