// SPDX-License-Identifier: Apache-2.0
/*
 * What a zygote stands on. A spawner lives in a user namespace T between the host's and the
 * sandboxes' and begets sandboxes that are the broker's children. A zygote in T, with two
 * capabilities over it and no other, puts a fork of itself into a sandbox: net namespace first, as
 * that belongs to T, and the pid namespace before the fork. The fork's fork is then an orphan of
 * the sandbox's first process, which gets its exit status.
 */
#include "platform.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SPAWNER_ID (PLATFORM_FIRST_ID + 65536)
#define ZYGOTE_ID  (PLATFORM_FIRST_ID + 65537)
#define ORPHAN_END 42

static const struct {
	const char *name;
	int kind;
} kinds[] = {
	{"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET}, {"user", CLONE_NEWUSER},
	{"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS}, {"mnt", CLONE_NEWNS},
};
#define KINDS ARRAY_SIZE(kinds)

static int write_maps(pid_t pid, const char *map)
{
	static const char *const names[] = {"uid_map", "gid_map"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[64];
		auto_fd int fd = -1;

		(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, names[i]);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, map, strlen(map)) < 0)
			return -errno;
	}
	return 0;
}

static void open_namespaces(pid_t pid, int fds[KINDS])
{
	for (size_t i = 0; i < KINDS; i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kinds[i].name);
		fds[i] = open(path, O_RDONLY | O_CLOEXEC);
		CHECK(fds[i] >= 0);
	}
}

/* The sandbox's first process: tells how the orphan that it is given ends. */
static void run_guest(int status_fd)
{
	char c = '\0';
	int status;

	(void)!write(status_fd, "g", 1);
	while (waitpid(-1, &status, 0) < 0)
		(void)usleep(1000);
	c = (char)WEXITSTATUS(status);
	(void)!write(status_fd, &c, 1);
	_exit(0);
}

/* In T: a sandbox whose parent is ours. Its pid goes to the pipe. */
static void run_nest(int go_fd, int pid_fd, int status_fd)
{
	struct clone_args args = {.flags = CLONE_PARENT | CLONE_NEWUSER | CLONE_NEWPID |
	                                   CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS};
	char map[64], c;
	pid_t pid;
	int r;

	if (read(go_fd, &c, 1) != 1 || setresgid(SPAWNER_ID, SPAWNER_ID, SPAWNER_ID) < 0 ||
	    setresuid(SPAWNER_ID, SPAWNER_ID, SPAWNER_ID) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 ||
	    unshare(CLONE_NEWNET) < 0)
		_exit(80);
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		run_guest(status_fd);
	(void)snprintf(map, sizeof(map), "0 %d 65536\n", PLATFORM_FIRST_ID);
	r = pid < 0 ? -errno : write_maps(pid, map);
	if (r < 0)
		_exit(81);
	(void)!write(pid_fd, &pid, sizeof(pid));
	for (;;)
		(void)pause();
}

static int keep_two_caps(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	const uint32_t keep = (uint32_t)(BIT64(CAP_SYS_ADMIN) | BIT64(CAP_SYS_CHROOT));
	struct __user_cap_data_struct data[2] = {{.effective = keep, .permitted = keep}};

	return (int)syscall(SYS_capset, &head, data);
}

static int set_lo_down(void)
{
	struct ifreq ifr = {.ifr_name = "lo"};
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? errno : 0;
}

/* Ends with the number of the step that failed. */
static void run_zygote(int userns_fd, const int fds[KINDS])
{
	pid_t pid;
	int status;

	if (setns(userns_fd, CLONE_NEWUSER) < 0 || setresgid(ZYGOTE_ID, ZYGOTE_ID, ZYGOTE_ID) < 0 ||
	    prctl(PR_SET_KEEPCAPS, 1) < 0 || setresuid(ZYGOTE_ID, ZYGOTE_ID, ZYGOTE_ID) < 0 ||
	    unshare(CLONE_NEWNS) < 0 || keep_two_caps() < 0)
		_exit(1);
	if (setns(fds[0], CLONE_NEWPID) < 0)
		_exit(2);
	pid = fork();
	if (pid > 0) {
		(void)waitpid(pid, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
	}
	for (size_t i = 1; i < KINDS; i++)
		if (setns(fds[i], kinds[i].kind) < 0)
			_exit(10 + (int)i);
	if (set_lo_down() != EPERM) /* all capabilities over the sandbox, none over its net */
		_exit(20);
	if (fork() > 0)
		_exit(0);
	while (getppid() != 1)
		(void)usleep(1000);
	_exit(ORPHAN_END);
}

TEST_FORKED(a_zygote_puts_its_fork_below_a_sandboxs_first_process, 20)
{
	int go[2], pids[2], status[2], fds[KINDS], userns_fd, wait_status;
	char map[96], path[64], c;
	pid_t spawner, guest, zygote;

	platform_need_root();
	CHECK_INT(pipe2(go, O_CLOEXEC) + pipe2(pids, O_CLOEXEC) + pipe2(status, O_CLOEXEC), 0);
	spawner = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (spawner < 0)
		SKIP("no user namespaces");
	if (spawner == 0)
		run_nest(go[0], pids[1], status[1]);
	(void)snprintf(map, sizeof(map), "%d %d 65538\n", PLATFORM_FIRST_ID, PLATFORM_FIRST_ID);
	CHECK_INT(write_maps(spawner, map), 0);
	CHECK_INT(write(go[1], "g", 1), 1);
	CHECK_INT(read(pids[0], &guest, sizeof(guest)), sizeof(guest));
	CHECK_INT(read(status[0], &c, 1), 1);
	open_namespaces(guest, fds);
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)spawner);
	userns_fd = open(path, O_RDONLY | O_CLOEXEC);
	zygote = fork();
	if (zygote == 0)
		run_zygote(userns_fd, fds);
	CHECK_INT(waitpid(zygote, &wait_status, 0), zygote);
	CHECK_INT(WEXITSTATUS(wait_status), 0);
	CHECK_INT(read(status[0], &c, 1), 1);
	CHECK_INT(c, ORPHAN_END);
	CHECK_INT(waitpid(guest, &wait_status, 0), guest); /* CLONE_PARENT: it is ours to reap */
	CHECK_INT(kill(spawner, SIGKILL), 0);
	CHECK_INT(waitpid(spawner, NULL, 0), spawner);
}
