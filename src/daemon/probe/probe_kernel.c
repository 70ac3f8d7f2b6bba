// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"
#include "daemon/probe/probe.h"
#include "engine/door/egress_rules.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

/* Overlays over idmapped layers need 5.19; everything else that we use is older. */
#define KERNEL_MAJOR 5
#define KERNEL_MINOR 19

#define LANDLOCK_ASK_VERSION 1
#define PROC_SYS             "/proc/sys"

#define say(...) ((void)snprintf(detail, PROBE_DETAIL_SIZE, __VA_ARGS__))

static bool say_errno(char *detail, int errnum)
{
	say("%s", strerror(errnum));
	return errnum == 0;
}

bool probe_kernel(char *detail)
{
	struct utsname u;
	int major = 0, minor = 0;

	if (uname(&u) < 0)
		return say_errno(detail, errno);
	say("%s %s", u.release, u.machine);
	(void)sscanf(u.release, "%d.%d", &major, &minor);
	return major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR);
}

/* A kernel that has the call answers an impossible size with EINVAL. */
bool probe_clone3(char *detail)
{
	(void)syscall(SYS_clone3, NULL, 0);
	if (errno != EINVAL)
		return say_errno(detail, errno);
	say("yes");
	return true;
}

bool probe_pidfd(char *detail)
{
	auto_fd int fd = pidfd_open(getpid(), 0);

	if (fd < 0)
		return say_errno(detail, errno);
	say("yes");
	return true;
}

bool probe_openat2(char *detail)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
	auto_fd int fd = (int)syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));

	if (fd < 0)
		return say_errno(detail, errno);
	say("yes");
	return true;
}

bool probe_seccomp(char *detail)
{
	char actions[160];

	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/seccomp/actions_avail", actions,
	                 sizeof(actions)) < 0) {
		say("the kernel has no seccomp filters");
		return false;
	}
	say("%s", actions);
	return strstr(actions, "kill_process") != NULL;
}

bool probe_landlock(char *detail)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_ASK_VERSION);

	if (abi < 0)
		return say_errno(detail, errno);
	say("ABI %ld", abi);
	return true;
}

/* Runs fn in a child, whose exit code is the errno that stopped it. */
static int in_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	if (pid < 0)
		return errno;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

static int enter_userns(void)
{
	auto_free char *uids = xasprintf("0 %u 1", geteuid());
	auto_free char *gids = xasprintf("0 %u 1", getegid());
	int r;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return errno;
	r = fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny"); /* gid_map wants it so */
	if (r == 0)
		r = fd_write_file(AT_FDCWD, "/proc/self/uid_map", uids);
	if (r == 0)
		r = fd_write_file(AT_FDCWD, "/proc/self/gid_map", gids);
	return -r;
}

/* Settings by which a distribution keeps user namespaces from processes, or from those without
 * CAP_SYS_ADMIN. The broker has that, so for a daemon of root's they change nothing; in a container
 * they may. */
static const struct {
	const char *name;
	char value;  /* with which it does */
	bool is_all; /* from root, too */
} userns_settings[] = {
	{"user/max_user_namespaces", '0', true},
	{"kernel/apparmor_restrict_unprivileged_userns", '1', false}, /* Ubuntu 24.04 */
	{"kernel/unprivileged_userns_clone", '0', false},             /* Debian's own */
};

static bool is_set(const char *proc_sys, size_t i)
{
	auto_free char *path = xasprintf("%s/%s", proc_sys, userns_settings[i].name);
	char text[32];

	return fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0 &&
	       text[0] == userns_settings[i].value && (text[1] == '\n' || text[1] == '\0');
}

void probe_explain_userns(const char *proc_sys, int errnum, char *detail)
{
	int at = snprintf(detail, PROBE_DETAIL_SIZE, "%s", errnum ? strerror(errnum) : "yes");

	for (size_t i = 0; i < ARRAY_SIZE(userns_settings); i++) {
		auto_free char *name = xstrdup(userns_settings[i].name);

		if (!is_set(proc_sys, i) || at >= PROBE_DETAIL_SIZE)
			continue;
		for (char *c = name; *c; c++)
			if (*c == '/') /* as sysctl writes it */
				*c = '.';
		at += snprintf(detail + at, PROBE_DETAIL_SIZE - (size_t)at, "; %s=%c%s", name,
		               userns_settings[i].value,
		               errnum || userns_settings[i].is_all
		                       ? " forbids it"
		                       : " forbids it to others than root, which is no hindrance");
	}
}

bool probe_userns(char *detail)
{
	int r = in_child(enter_userns);

	probe_explain_userns(PROC_SYS, r, detail);
	return r == 0;
}

static int mount_overlay(void)
{
	static const char *const dirs[] = {"/tmp/lower", "/tmp/upper", "/tmp/work", "/tmp/merged"};
	int r = enter_userns();

	if (r != 0)
		return r;
	if (mount("none", "/tmp", "tmpfs", 0, NULL) < 0)
		return errno;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdir(dirs[i], 0700) < 0)
			return errno;
	if (mount("none", "/tmp/merged", "overlay", 0,
	          "userxattr,lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work") < 0)
		return errno;
	return 0;
}

bool probe_overlay(char *detail)
{
	int r = in_child(mount_overlay);

	probe_explain_userns(PROC_SYS, r, detail);
	return r == 0;
}

/* A user namespace with one id mapped, held by a child that waits on a pipe. */
static int open_userns(void)
{
	char path[64], byte = 0;
	int fds[2];
	int ns_fd;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		byte = (char)enter_userns();
		(void)!write(fds[1], &byte, 1);
		(void)pause();
		_exit(0);
	}
	(void)close(fds[1]);
	(void)!read(fds[0], &byte, 1);
	(void)close(fds[0]);
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	ns_fd = byte == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return ns_fd;
}

bool probe_idmap(char *detail)
{
	auto_fd int ns_fd = open_userns();
	auto_fd int tree = (int)syscall(SYS_open_tree, AT_FDCWD, "/usr",
	                                OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)ns_fd};

	if (ns_fd < 0 || tree < 0)
		return say_errno(detail, errno ? errno : EPERM);
	if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return say_errno(detail, errno);
	say("yes, for /usr");
	return true;
}

/* Sets a door's rules where they change nothing: in a net namespace that ends with the child. The
 * kernel loads its modules for that meanwhile. */
static int try_door(void)
{
	static const uint16_t ports[DOOR_SOCKETS] = {1, 2, 3, 4};
	int fd; /* goes with the child */

	return unshare(CLONE_NEWNET) < 0 ? errno : -egress_rules_install(ports, &fd);
}

bool probe_nftables(char *detail)
{
	int errnum = in_child(try_door);

	if (errnum)
		return say_errno(detail, errnum);
	say("yes, with nat, redirects and limits");
	return true;
}
