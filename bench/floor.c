// SPDX-License-Identifier: Apache-2.0
/*
 * What the kernel alone takes for a jail: floor COUNT DIR. One process makes COUNT jails one behind
 * the other and removes each, with the calls that src/engine makes for a jail of the template
 * `host`, and nothing else: no daemon, no messages, no records, no interpreter, no layer of a disk
 * (the layer is a tmpfs), no limits, no filter. What the daemon needs beyond it is ours; what is
 * here is the kernel's. DIR is an empty directory of the caller's.
 *
 * A line for each jail: milliseconds until the program in it has said a byte, milliseconds until
 * all is removed, and those of CPU that this process and the jail's took. Work that the kernel
 * leaves to its own threads (net namespaces, control groups) is not in it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FIRST_ID  0x60000000U /* above those of any daemon on its defaults */
#define TREES_MAX 8

static const char *const hidden[] = {
	"buddyinfo", "cgroups",     "cmdline",  "consoles",   "crypto",  "devices", "diskstats",
	"dma",       "execdomains", "fb",       "interrupts", "iomem",   "ioports", "kallsyms",
	"key-users", "keys",        "locks",    "misc",       "modules", "mtrr",    "partitions",
	"softirqs",  "vmstat",      "zoneinfo", "cpuinfo",    "meminfo", "stat",    "loadavg",
	"uptime",    "swaps",       "version",  "sys/kernel", "acpi",    "bus",     "driver",
	"fs",        "irq",         "pressure", "tty",        "asound",
};

static int trees[TREES_MAX], n_trees; /* fds of our own group in each tree */
static bool is_v2[TREES_MAX];

static void die(const char *what)
{
	(void)fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static double now(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double cpu_of(int who)
{
	struct rusage u;

	(void)getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static void open_trees(void)
{
	static const char *const names[] = {"cpu", "memory", "pids", "unified", ""};
	struct stat seen[TREES_MAX];
	char path[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && n_trees < TREES_MAX; i++) {
		(void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", names[i]);
		int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		bool known = fd < 0 || fstat(fd, &seen[n_trees]) < 0 ||
		             faccessat(fd, "cgroup.procs", F_OK, 0) < 0;

		for (int k = 0; k < n_trees && !known; k++)
			known = seen[k].st_dev == seen[n_trees].st_dev;
		if (known) {
			if (fd >= 0)
				(void)close(fd);
			continue;
		}
		is_v2[n_trees] = faccessat(fd, "cgroup.controllers", F_OK, 0) == 0;
		trees[n_trees++] = fd;
	}
}

static void name_group(char path[48], bool user)
{
	(void)snprintf(path, 48, "cloche-floor-%d%s", (int)getpid(), user ? "/user" : "");
}

static void make_groups(int join[TREES_MAX])
{
	char path[80], group[48];

	for (int i = 0; i < n_trees; i++) {
		name_group(group, false);
		if (mkdirat(trees[i], group, 0755) < 0)
			die("mkdir of a control group");
		(void)snprintf(path, sizeof(path), "%s/cgroup.procs", group);
		join[i] = openat(trees[i], path, O_WRONLY | O_CLOEXEC);
		name_group(group, true);
		if (mkdirat(trees[i], group, 0755) < 0 || join[i] < 0)
			die("a control group");
	}
}

static void remove_groups(const int join[TREES_MAX])
{
	char group[48];

	for (int i = 0; i < n_trees; i++) {
		(void)close(join[i]);
		name_group(group, true);
		(void)unlinkat(trees[i], group, AT_REMOVEDIR);
		name_group(group, false);
		if (unlinkat(trees[i], group, AT_REMOVEDIR) < 0)
			die("rmdir of a control group");
	}
}

static void must(int r, const char *what)
{
	if (r < 0)
		die(what);
}

static void bring_lo_up(void)
{
	struct ifreq req = {.ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)snprintf(req.ifr_name, sizeof(req.ifr_name), "lo");
	must(ioctl(fd, SIOCSIFFLAGS, &req), "lo");
	(void)close(fd);
}

static void make_dirs(void)
{
	static const char *const dirs[] = {
		"l",     "l/root", "l/root.work", "l/usr", "l/usr.work", "t", "t/usr", "t/proc",
		"t/sys", "t/dev",  "t/etc",       "r",     "c",          "v", "v/pts", "v/shm"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		must(mkdir(dirs[i], 0755), "mkdir");
	(void)close(open("f", O_WRONLY | O_CREAT | O_CLOEXEC, 0444));
}

static void cover(const char *name)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "r/proc/%s", name);
	if (lstat(path, &st) == 0)
		must(mount(S_ISDIR(st.st_mode) ? "c" : "f", path, NULL, MS_BIND, NULL), path);
}

static void mount_all(const char *dir)
{
	static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};
	char path[48], own[48];

	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
	must(mount("tmpfs", dir, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m"), "staging");
	must(chdir(dir), "chdir");
	make_dirs();
	must(mount("overlay", "r", "overlay", 0,
	           "userxattr,volatile,lowerdir=t,upperdir=l/root,workdir=l/root.work"),
	     "overlay of /");
	must(mount("overlay", "r/usr", "overlay", 0,
	           "userxattr,volatile,lowerdir=/usr,upperdir=l/usr,workdir=l/usr.work"),
	     "overlay of /usr");
	must(mount("proc", "r/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "proc");
	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		cover(hidden[i]);
	must(mount("c", "r/sys", NULL, MS_BIND, NULL), "sys");
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		(void)snprintf(own, sizeof(own), "v/%s", nodes[i]);
		(void)snprintf(path, sizeof(path), "/dev/%s", nodes[i]);
		(void)close(open(own, O_WRONLY | O_CREAT | O_CLOEXEC, 0444));
		must(mount(path, own, NULL, MS_BIND, NULL), own);
	}
	must(mount("v", "r/dev", NULL, MS_BIND | MS_REC, NULL), "dev");
	must(mount("devpts", "r/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
	           "newinstance,ptmxmode=0666,mode=0620"),
	     "devpts");
	must(mount("tmpfs", "r/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777"), "shm");
	must(chdir("r"), "chdir");
	must((int)syscall(SYS_pivot_root, ".", "."), "pivot_root");
	must(umount2(".", MNT_DETACH), "umount");
	must(chdir("/"), "chdir");
}

/* The first process: all walls, and then a program that says a byte. */
static void be_first(const char *dir, int go, int say, int self, const int join[TREES_MAX])
{
	char *const argv[] = {(char[]){"floor"}, NULL}, *const env[] = {NULL};
	char byte;

	if (read(go, &byte, 1) != 1)
		_exit(1);
	for (int i = 0; i < n_trees; i++)
		if (!is_v2[i])
			must(write(join[i], "0", 1) == 1 ? 0 : -1, "join");
	must(unshare(CLONE_NEWCGROUP), "cgroup namespace");
	must(setgroups(0, NULL), "setgroups");
	must(setresgid(0, 0, 0), "setresgid");
	must(setresuid(0, 0, 0), "setresuid");
	bring_lo_up();
	mount_all(dir);
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	must(dup2(say, STDOUT_FILENO), "dup2");
	(void)syscall(SYS_execveat, self, "", argv, env, AT_EMPTY_PATH);
	die("exec");
}

static void map_ids(pid_t pid)
{
	static const char *const files[] = {"uid_map", "gid_map"};
	char path[48], text[48];

	for (int i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
		(void)snprintf(text, sizeof(text), "0 %u 65536", FIRST_ID);
		int fd = open(path, O_WRONLY | O_CLOEXEC);

		must(write(fd, text, strlen(text)) > 0 ? 0 : -1, files[i]);
		(void)close(fd);
	}
}

static void live(const char *dir, int self)
{
	int go[2], say[2], join[TREES_MAX], pidfd = -1;
	const double cpu = cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN);
	const double begin = now(CLOCK_MONOTONIC);
	struct clone_args args = {
		.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
	                 CLONE_NEWUTS | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	char group[48], byte;

	must(pipe2(go, O_CLOEXEC), "pipe");
	must(pipe2(say, O_CLOEXEC), "pipe");
	make_groups(join);
	name_group(group, false);
	for (int i = 0; i < n_trees; i++)
		if (is_v2[i]) {
			args.flags |= CLONE_INTO_CGROUP;
			args.cgroup = (uint64_t)openat(trees[i], group,
			                               O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		}
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	must(pid, "clone3");
	if (pid == 0)
		be_first(dir, go[0], say[1], self, join);
	if (args.cgroup)
		(void)close((int)args.cgroup);
	map_ids(pid);
	(void)close(say[1]);
	const bool has_said = write(go[1], "g", 1) == 1 && read(say[0], &byte, 1) == 1;
	const double said = now(CLOCK_MONOTONIC);

	must((int)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0), "kill");
	must(waitpid(pid, NULL, 0), "wait");
	remove_groups(join);
	if (!has_said)
		_exit(1); /* it has told why */
	(void)printf("%.3f %.3f %.3f\n", said - begin, now(CLOCK_MONOTONIC) - begin,
	             cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN) - cpu);
	for (int i = 0; i < 2; i++)
		(void)close(go[i]);
	(void)close(say[0]);
	(void)close(pidfd);
}

int main(int argc, char **argv)
{
	if (argc == 1) { /* in the jail */
		(void)!write(STDOUT_FILENO, "!", 1);
		for (;;)
			(void)pause();
	}
	if (argc != 3) {
		(void)fprintf(stderr, "usage: floor COUNT DIR\n");
		return 2;
	}
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	must(self, "/proc/self/exe");
	open_trees();
	for (long n = strtol(argv[1], NULL, 10); n > 0; n--)
		live(argv[2], self);
	return 0;
}
