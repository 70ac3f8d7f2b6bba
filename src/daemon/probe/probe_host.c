// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"
#include "base/parse.h"
#include "base/process/spawn.h"
#include "daemon/probe/probe.h"

#include <fcntl.h>
#include <glob.h>
#include <linux/kvm.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define GUEST_KERNEL "/var/lib/cloche/kernels/current" /* a link to its image's name */
#define say(...)     ((void)snprintf(detail, PROBE_DETAIL_SIZE, __VA_ARGS__))

bool probe_root(char *detail)
{
	say("running as user %u", geteuid());
	return geteuid() == 0;
}

/* Whether a line of /proc/self/mounts is of this type, and its options have this word. */
static bool line_matches(const char *line, const char *type, const char *option, char *path,
                         size_t size)
{
	char dir[256], kind[32], options[512];
	const char *at;
	size_t len = strlen(option);

	if (sscanf(line, "%*s %255s %31s %511s", dir, kind, options) != 3 ||
	    strcmp(kind, type) != 0)
		return false;
	(void)snprintf(path, size, "%s", dir);
	for (at = strstr(options, option); at && len > 0; at = strstr(at + 1, option)) {
		bool begins = at == options || at[-1] == ',';
		bool ends = at[len] == '\0' || at[len] == ',';

		if (begins && ends)
			return true;
	}
	return len == 0;
}

static bool find_mount(const char *type, const char *option, char *path, size_t size)
{
	FILE *f = fopen("/proc/self/mounts", "re");
	char line[4096];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = line_matches(line, type, option, path, size);
	if (f)
		(void)fclose(f);
	return found;
}

/* A controller, in the v2 tree or in its own v1 tree. */
static bool probe_controller(const char *name, char *detail)
{
	char dir[256], path[300], list[256], word[64];

	if (find_mount("cgroup", name, dir, sizeof(dir))) {
		say("v1, %s", dir);
		return true;
	}
	if (!find_mount("cgroup2", "", dir, sizeof(dir))) {
		say("no cgroup tree is mounted");
		return false;
	}
	(void)snprintf(path, sizeof(path), "%s/cgroup.controllers", dir);
	if (fd_read_file(AT_FDCWD, path, list, sizeof(list) - 1) < 0)
		list[0] = '\0';
	for (const char *at = list; sscanf(at, "%63s", word) == 1;
	     at = strstr(at, word) + strlen(word)) {
		if (strcmp(word, name) != 0)
			continue;
		say("v2, %s", dir);
		return true;
	}
	say("neither in a v1 tree nor among the controllers of %s", dir);
	return false;
}

bool probe_cgroups(char *detail)
{
	char v1[256], v2[256];
	bool has_v1 = find_mount("cgroup", "", v1, sizeof(v1));
	bool has_v2 = find_mount("cgroup2", "", v2, sizeof(v2));

	if (has_v1 && has_v2)
		say("hybrid: v1, and v2 in %s", v2);
	else if (has_v2)
		say("v2 in %s", v2);
	else
		say("%s", has_v1 ? "v1" : "none");
	return has_v1 || has_v2;
}

bool probe_cgroup_memory(char *detail)
{
	return probe_controller("memory", detail);
}

bool probe_cgroup_cpu(char *detail)
{
	return probe_controller("cpu", detail);
}

bool probe_cgroup_pids(char *detail)
{
	return probe_controller("pids", detail);
}

/* v2 can freeze every group, without a controller. */
bool probe_cgroup_freezer(char *detail)
{
	char dir[256];

	if (find_mount("cgroup2", "", dir, sizeof(dir))) {
		say("v2, %s", dir);
		return true;
	}
	return probe_controller("freezer", detail);
}

bool probe_btrfs(char *detail)
{
	static const char *const argv[] = {"modprobe", "-n", "-q", "btrfs", NULL};
	char list[4096];

	if (fd_read_file(AT_FDCWD, "/proc/filesystems", list, sizeof(list)) > 0 &&
	    strstr(list, "\tbtrfs\n")) {
		say("in the kernel");
		return true;
	}
	say("a module that can be loaded");
	if (spawn_run(argv, NULL) == 0)
		return true;
	say("not in this kernel");
	return false;
}

static bool find_program(const char *name, char *detail)
{
	static const char *const dirs[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
	                                   "/usr/bin",        "/sbin",          "/bin"};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		say("%s/%s", dirs[i], name);
		if (access(detail, X_OK) == 0)
			return true;
	}
	say("no program %s", name);
	return false;
}

bool probe_mkfs_btrfs(char *detail)
{
	return find_program("mkfs.btrfs", detail);
}

bool probe_criu(char *detail)
{
	return find_program("criu", detail);
}

bool probe_qemu(char *detail)
{
#if defined(__aarch64__)
	return find_program("qemu-system-aarch64", detail);
#else
	return find_program("qemu-system-x86_64", detail);
#endif
}

bool probe_guest_kernel(char *detail)
{
	struct stat st;
	const bool is_there = lstat(GUEST_KERNEL, &st) == 0;

	if (is_there)
		say("there");
	else
		say(GUEST_KERNEL ": %s", strerror(errno));
	return is_there;
}

static bool probe_device(const char *path, char *detail)
{
	auto_fd int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		say("%s: %s", path, strerror(errno));
	else
		say("%s", path);
	return fd >= 0;
}

bool probe_loop(char *detail)
{
	return probe_device("/dev/loop-control", detail);
}

/* By the CPU's flags, if they show it. */
static bool is_host_a_vm(void)
{
	char text[4096]; /* the first CPU's */

	return fd_read_file(AT_FDCWD, "/proc/cpuinfo", text, sizeof(text)) >= 0 &&
	       strstr(text, " hypervisor") != NULL;
}

bool probe_kvm(char *detail)
{
	auto_fd int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int version = fd < 0 ? -1 : ioctl(fd, KVM_GET_API_VERSION, 0);

	if (fd < 0)
		say("/dev/kvm: %s", strerror(errno));
	else if (version != KVM_API_VERSION)
		say("/dev/kvm has version %d, which QEMU does not speak", version);
	else
		say("/dev/kvm%s",
		    is_host_a_vm() ? ", nested: where it cannot run a guest, that is emulated"
		                   : "");
	return version == KVM_API_VERSION;
}

/* Names the flaws that the kernel reports as vulnerable: jails share this CPU and kernel. */
bool probe_cpu_flaws(char *detail)
{
	glob_t files = {0};
	size_t n_open = 0;
	int at = 0;

	if (glob("/sys/devices/system/cpu/vulnerabilities/*", 0, NULL, &files) != 0) {
		say("the kernel does not tell");
		return false;
	}
	for (size_t i = 0; i < files.gl_pathc; i++) {
		char text[256];

		if (fd_read_file(AT_FDCWD, files.gl_pathv[i], text, sizeof(text)) < 0 ||
		    strncmp(text, "Vulnerable", 10) != 0)
			continue;
		n_open++;
		if (at < PROBE_DETAIL_SIZE)
			at += snprintf(
				detail + at, PROBE_DETAIL_SIZE - (size_t)at, "%s%s",
				at ? ", " : "vulnerable: ", strrchr(files.gl_pathv[i], '/') + 1);
	}
	if (n_open == 0)
		say("none of %zu known ones is open", files.gl_pathc);
	globfree(&files);
	return n_open == 0;
}

bool probe_user(char *detail)
{
	const struct passwd *pw = getpwnam("cloche");

	if (pw)
		say("uid %u", pw->pw_uid);
	else
		say("no user cloche: the gateway takes uid 64000");
	return pw != NULL;
}

bool probe_daemon(char *detail)
{
	auto_fd int fd = open("/run/cloche/lock", O_RDONLY | O_CLOEXEC);
	char pid[24];

	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0) {
		say("none on /run/cloche");
		return false;
	}
	if (fd_read_file(AT_FDCWD, "/run/cloche/lock", pid, sizeof(pid)) < 0)
		pid[0] = '\0';
	say("pid %s, socket /run/cloche/cloche.sock", pid);
	return true;
}
