// SPDX-License-Identifier: Apache-2.0
/*
 * Order is the security here, so it is a table. The filter is an allow-list; what is not on it
 * fails with EPERM, which a library that merely tries something survives, and which the daemon's
 * own code reports.
 */
#include "daemon/confine.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

struct plan {
	const char *root_dir;
	uid_t uid;
	gid_t gid;
	enum { GATEWAY, DIALER, WALL_PROCESS } who;
	struct work **ret_work; /* NULL: it has no thread beside */
};

/* Each connection, exec and file costs an fd; no core file may hold keys. */
static int set_rlimits(const struct plan *plan)
{
	const struct rlimit no_core = {0};
	struct rlimit files;

	(void)plan;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &no_core) < 0)
		return -errno;
	return 0;
}

static int enter_root(const struct plan *plan)
{
	if (plan->who == DIALER)
		return 0;
	return chroot(plan->root_dir) < 0 || chdir("/") < 0 ? -errno : 0;
}

static int drop_bounding_set(const struct plan *plan)
{
	(void)plan;
	for (int cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 &&
		    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return -errno;
	return 0;
}

static int become_user(const struct plan *plan)
{
	if (setgroups(0, NULL) < 0 || setresgid(plan->gid, plan->gid, plan->gid) < 0 ||
	    setresuid(plan->uid, plan->uid, plan->uid) < 0)
		return -errno;
	return 0;
}

static int drop_capabilities(const struct plan *plan)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	(void)plan;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &header, none) < 0)
		return -errno;
	return 0;
}

static int seal_process(const struct plan *plan)
{
	(void)plan;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

/* It has what this process has kept until here, and the filter is for both. */
static int start_work(const struct plan *plan)
{
	return plan->ret_work ? work_new(plan->ret_work) : 0;
}

/* By name, as some exist on one architecture only. Files below its root: SQLite and spools. */
static const char *const allowed_files[] = {
	"openat",     "open",      "pread64",    "pwrite64",  "lseek",    "stat",       "lstat",
	"newfstatat", "statx",     "ftruncate",  "fallocate", "fsync",    "fdatasync",  "flock",
	"access",     "faccessat", "faccessat2", "getcwd",    "readlink", "readlinkat", "mkdir",
	"mkdirat",    "rmdir",     "unlink",     "unlinkat",  "rename",   "renameat",   "renameat2",
	"getdents64", "fstatfs",   "fchmod",     "umask",     "dup",      "dup3",
};

static const char *const allowed[] = {
	"close",
	"read",
	"write",
	"readv",
	"writev",
	"fstat",
	"fcntl",
	/* sockets that it was given, and those that come from them */
	"accept4",
	"recvfrom",
	"recvmsg",
	"sendto",
	"sendmsg",
	"shutdown",
	"getsockopt",
	"setsockopt",
	"getsockname",
	"getpeername",
	/* the loop */
	"epoll_create1",
	"epoll_ctl",
	"epoll_wait",
	"epoll_pwait",
	"epoll_pwait2",
	"signalfd4",
	"timerfd_create",
	"timerfd_settime",
	"eventfd2",
	"pipe2",
	"poll",
	"ppoll",
	/* memory; mmap and mprotect are below */
	"brk",
	"munmap",
	"mremap",
	"madvise",
	"futex",
	"membarrier",
	/* itself */
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"sigaltstack",
	"getpid",
	"gettid",
	"getuid",
	"geteuid",
	"getgid",
	"getegid",
	"getrusage",
	"getrandom",
	"clock_gettime",
	"clock_getres",
	"clock_nanosleep",
	"nanosleep",
	"gettimeofday",
	"time",
	"uname",
	"sysinfo",
	"sched_yield",
	"sched_getaffinity",
	"restart_syscall",
	"rseq",
	"set_robust_list",
	"exit",
	"exit_group",
};

/* What the dialer needs beside: to resolve names, to connect, a child for each call. */
static const char *const allowed_dialer[] = {
	"socket", "connect", "bind",   "sendmmsg",   "recvmmsg", "clone",     "clone3",
	"fork",   "wait4",   "waitid", "pidfd_open", "alarm",    "setitimer",
};

/* And the wall: to connect, and to be told the host's addresses (netlink). */
static const char *const allowed_wall[] = {"socket", "connect", "bind"};

static int allow_names(scmp_filter_ctx ctx, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int nr = seccomp_syscall_resolve_name(names[i]);
		int r;

		if (nr < 0) /* not on this architecture */
			continue;
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Memory that can be run cannot be made; signals go to itself only (abort()); a log asks whether
 * stderr is a terminal; a pair of sockets leads from itself to itself. */
static int allow_with_arguments(scmp_filter_ctx ctx)
{
	int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
	                         SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
		                     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
		                     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
		                     SCMP_A1(SCMP_CMP_EQ, TCGETS));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
		                     SCMP_A1(SCMP_CMP_EQ, FIONREAD));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
		                     SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
	return r;
}

static int filter_syscalls(const struct plan *plan)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r;

	if (!ctx)
		return -ENOMEM;
	/* A foreign ABI (i386, x32) has other numbers: no call through it can be meant well. */
	r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r == 0)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1); /* for all threads */
	if (r == 0)
		r = allow_names(ctx, allowed, ARRAY_SIZE(allowed));
	if (r == 0 && plan->who != WALL_PROCESS)
		r = allow_names(ctx, allowed_files, ARRAY_SIZE(allowed_files));
	if (r == 0 && plan->who == DIALER)
		r = allow_names(ctx, allowed_dialer, ARRAY_SIZE(allowed_dialer));
	if (r == 0 && plan->who == WALL_PROCESS)
		r = allow_names(ctx, allowed_wall, ARRAY_SIZE(allowed_wall));
	if (r == 0)
		r = allow_with_arguments(ctx);
	if (r == 0)
		r = seccomp_load(ctx);
	seccomp_release(ctx);
	return r;
}

static const struct {
	const char *name;
	int (*run)(const struct plan *plan);
} steps[] = {
	{"resource limits", set_rlimits},
	{"root directory", enter_root},      /* needs root; no host path has a name after it */
	{"bounding set", drop_bounding_set}, /* needs root, too */
	{"user", become_user},               /* from here on not root */
	{"capabilities", drop_capabilities},
	{"no new privileges", seal_process}, /* the filter needs it */
	{"work thread", start_work},         /* no other can be made after the next */
	{"system calls", filter_syscalls},   /* last: it forbids what the steps above did */
};

static int run_steps(const struct plan *plan, struct err *err)
{
	static const char *const names[] = {
		[GATEWAY] = "gateway", [DIALER] = "dialer", [WALL_PROCESS] = "wall"};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int r = steps[i].run(plan);

		if (r < 0)
			return err_set(err, ERR_INTERNAL, -r, "cannot confine the %s: %s",
			               names[plan->who], steps[i].name);
	}
	return 0;
}

int confine(const char *root_dir, uid_t uid, gid_t gid, struct work **ret_work, struct err *err)
{
	return run_steps(
		&(struct plan){.root_dir = root_dir, .uid = uid, .gid = gid, .ret_work = ret_work},
		err);
}

int confine_dialer(uid_t uid, gid_t gid, struct err *err)
{
	return run_steps(&(struct plan){.uid = uid, .gid = gid, .who = DIALER}, err);
}

int confine_wall(const char *root_dir, uid_t uid, gid_t gid, struct err *err)
{
	return run_steps(
		&(struct plan){.root_dir = root_dir, .uid = uid, .gid = gid, .who = WALL_PROCESS},
		err);
}

int confine_syscalls(struct err *err)
{
	int r = filter_syscalls(&(struct plan){0});

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot filter system calls") : 0;
}
