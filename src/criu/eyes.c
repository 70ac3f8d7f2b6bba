// SPDX-License-Identifier: Apache-2.0
/*
 * A library that corrects what CRIU sees (LD_PRELOAD). Debian 12 has CRIU 3.17.1; kernels have
 * changed since, and a sandbox has properties that CRIU does not expect. Each function here
 * replaces one of libc's, does the same, and corrects one thing:
 *
 *	maps, smaps	Mappings that CRIU does not know (shown_mapping.c).
 *	map_files, exe	An interpreter that was forked from a zygote maps files through the zygote's
 *			mounts, which the sandbox does not have. CRIU is given the sandbox's own
 *			file of that name, if it is the same inode.
 *			The agent's program is a memfd, and is saved by its mappings. The exe of
 *			a copy leads to another memfd of that name, which CRIU must not use.
 *	read()		A restore reads the first bytes of a program or library that a process has
 *			open, and would leave the file offset behind them: a process that was
 *			about to load the file would find no program there.
 *	readlink()	If a process has /proc/PID itself open, CRIU writes a '/' over the end of
 *			the name. The bytes behind it must not become a part of the name.
 *	prlimit64()	on another's process needs CAP_SYS_RESOURCE, which a host may lack.
 *	getsockopt()	Since Linux 6.16 only unix sockets have SO_PASSCRED and SO_PASSSEC; for
 *			others they read as off.
 *	ptrace()	The kernel accepts the extended registers of a thread only as a whole, and
 *			CRIU knows fewer of them than processors with AMX have. The others are
 *			kept: CRIU's code in the thread does not change them.
 *			A restore releases processes one by one. If one of them kills another at
 *			once, that one can no longer be released, and that is no error.
 *	ptrace(), wait4()
 *			Another process traces for CRIU, so that killing CRIU does not end the
 *			sandbox (tracer.h).
 *	fork()		Children with which CRIU tests the kernel would sleep for ever if CRIU is
 *			killed, so they die with it.
 *	setsockopt()	SO_MARK 0 and the like need CAP_NET_ADMIN over the net namespace, which
 *			nobody inside has. A new socket has these values anyway.
 *	fchownat(), fstatat()
 *			The agent's program has an owner that the sandbox does not know, which CRIU
 *			saves as -1. CRIU 4 sets that, which changes nothing, and then expects to
 *			read it. (CRIU 3 does not look.)
 *	clone3()	A user namespace is made with the owner that CLOCHE_OWNER names.
 *
 * CLOCHE_ROOT is the pid of the first process of the sandbox that is saved; without it, none is.
 * The library does not survive an exec: programs that CRIU runs see everything unchanged.
 */
#include "criu/shown_mapping.h"
#include "criu/tracer.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOUNTS_MAX 1024
#define LINE_SIZE  4352 /* a path and what stands before it */
#define XSTATE_MAX (64 * 1024)

int open64(const char *path, int flags, ...);
int openat64(int dir_fd, const char *path, int flags, ...);

static long (*next_syscall)(long number, ...);
static int (*next_getsockopt)(int fd, int level, int name, void *value, socklen_t *len);
static int (*next_setsockopt)(int fd, int level, int name, const void *value, socklen_t len);
static long (*next_ptrace)(int request, ...);
static pid_t (*next_fork)(void);
static pid_t (*next_wait4)(pid_t pid, int *status, int options, struct rusage *usage);
static bool is_dump;
static int root_fd = -1;
static int mounts[MOUNTS_MAX];
static size_t n_mounts;
static uid_t owner; /* 0: nobody is named */

static int plain_open(int dir_fd, const char *path, int flags, unsigned mode)
{
	return (int)next_syscall(SYS_openat, dir_fd, path, flags, mode);
}

static FILE *plain_fopen(const char *path)
{
	int fd = plain_open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);

	return fd < 0 ? NULL : fdopen(fd, "r");
}

static void look_around(const char *pid)
{
	char line[LINE_SIZE];
	FILE *f;

	(void)snprintf(line, sizeof(line), "/proc/%s/root", pid);
	root_fd = plain_open(AT_FDCWD, line, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	(void)snprintf(line, sizeof(line), "/proc/%s/mountinfo", pid);
	f = plain_fopen(line);
	while (f && n_mounts < MOUNTS_MAX && fgets(line, sizeof(line), f))
		mounts[n_mounts++] = (int)strtol(line, NULL, 10);
	if (f)
		(void)fclose(f);
}

__attribute__((constructor)) static void open_eyes(void)
{
	const char *pid = getenv("CLOCHE_ROOT"), *uid = getenv("CLOCHE_OWNER");

	*(void **)&next_syscall = dlsym(RTLD_NEXT, "syscall");
	*(void **)&next_getsockopt = dlsym(RTLD_NEXT, "getsockopt");
	*(void **)&next_setsockopt = dlsym(RTLD_NEXT, "setsockopt");
	*(void **)&next_ptrace = dlsym(RTLD_NEXT, "ptrace");
	*(void **)&next_fork = dlsym(RTLD_NEXT, "fork");
	*(void **)&next_wait4 = dlsym(RTLD_NEXT, "wait4");
	if (!next_syscall || !next_getsockopt || !next_setsockopt || !next_ptrace || !next_fork ||
	    !next_wait4)
		abort();
	is_dump = pid != NULL;
	owner = uid ? (uid_t)strtoul(uid, NULL, 10) : 0;
	if (pid)
		look_around(pid);
	if (pid && !tracer_start(next_ptrace))
		(void)fprintf(stderr, "Warn (cloche): CRIU traces by itself (errno %d)\n", errno);
	(void)unsetenv("LD_PRELOAD");
	(void)unsetenv("CLOCHE_ROOT");
	(void)unsetenv("CLOCHE_OWNER");
}

__attribute__((destructor)) static void close_eyes(void)
{
	tracer_stop();
}

static bool ends_with(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');

	return strcmp(slash ? slash + 1 : path, name) == 0;
}

/* Whether it is a file of map_files. */
static bool is_range(const char *path)
{
	size_t first = strspn(path, "0123456789abcdef");

	return first > 0 && path[first] == '-' &&
	       path[first + 1 + strspn(path + first + 1, "0123456789abcdef")] == '\0';
}

static bool is_own_mount(int fd)
{
	char path[64], line[LINE_SIZE];
	int id = -1;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = plain_fopen(path);
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "mnt_id:", 7) == 0)
			id = (int)strtol(line + 7, NULL, 10);
	if (f)
		(void)fclose(f);
	for (size_t i = 0; i < n_mounts; i++)
		if (mounts[i] == id)
			return true;
	return false;
}

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_size == y.st_size && x.st_mode == y.st_mode &&
	       x.st_mtim.tv_sec == y.st_mtim.tv_sec && x.st_mtim.tv_nsec == y.st_mtim.tv_nsec;
}

static bool has_link(int fd, char path[4096])
{
	char link[64];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, 4095);
	path[n < 0 ? 0 : n] = '\0';
	return n > 0;
}

/* Returns the sandbox's own file instead of fd, or fd. */
static int show_own(int fd)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	char path[4096];
	int own;

	if (root_fd < 0 || is_own_mount(fd) || !has_link(fd, path) || path[0] != '/')
		return fd;
	own = (int)next_syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	if (own < 0)
		return fd;
	if (!is_same_file(fd, own)) {
		(void)close(own);
		return fd;
	}
	(void)close(fd);
	return own;
}

/* Returns the memfd of that name that a process maps instead of fd, or fd. */
static int show_mapped(int fd, int dir_fd)
{
	char path[4096], line[LINE_SIZE], range[96];
	int maps_fd, mapped = -1;
	FILE *maps;

	if (!has_link(fd, path) || strncmp(path, "/memfd:", 7) != 0)
		return fd;
	maps_fd = plain_open(dir_fd, "maps", O_RDONLY | O_CLOEXEC, 0);
	maps = maps_fd < 0 ? NULL : fdopen(maps_fd, "r");
	while (maps && mapped < 0 && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, path) || sscanf(line, "%64s", range + sizeof("map_files")) != 1)
			continue;
		(void)memcpy(range, "map_files/", sizeof("map_files/") - 1);
		mapped = plain_open(dir_fd, range, O_RDONLY | O_CLOEXEC, 0);
	}
	if (maps)
		(void)fclose(maps);
	if (mapped < 0)
		return fd;
	(void)close(fd);
	return mapped;
}

/* The memory of the process whose smaps this is. */
static int open_memory(int dir_fd, const char *path)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "%.*smem", (int)(strlen(path) - strlen("smaps")), path);
	return plain_open(dir_fd, name, O_RDWR | O_CLOEXEC, 0);
}

/* dir_fd, path: of maps or smaps. */
static int show_corrected(int fd, int dir_fd, const char *path)
{
	int mem_fd = is_dump && ends_with(path, "smaps") ? open_memory(dir_fd, path) : -1;

	show_mappings(fd, mem_fd);
	if (mem_fd >= 0)
		(void)close(mem_fd);
	return fd;
}

static int show(int fd, int dir_fd, const char *path)
{
	if (fd < 0)
		return fd;
	if (ends_with(path, "maps") || ends_with(path, "smaps"))
		return show_corrected(fd, dir_fd, path);
	if (strcmp(path, "exe") == 0)
		return show_own(show_mapped(fd, dir_fd));
	return is_range(path) ? show_own(fd) : fd;
}

static unsigned mode_of(int flags, va_list args)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, unsigned) : 0;
}

int open64(const char *path, int flags, ...)
{
	unsigned mode;
	va_list args;

	va_start(args, flags);
	mode = mode_of(flags, args);
	va_end(args);
	return show(plain_open(AT_FDCWD, path, flags, mode), AT_FDCWD, path);
}

int openat64(int dir_fd, const char *path, int flags, ...)
{
	unsigned mode;
	va_list args;

	va_start(args, flags);
	mode = mode_of(flags, args);
	va_end(args);
	return show(plain_open(dir_fd, path, flags, mode), dir_fd, path);
}

static int read_limit(long pid, long what, struct rlimit *ret)
{
	/* clang-format off */
	static const char *const names[] = {
		[RLIMIT_CPU] = "Max cpu time", [RLIMIT_FSIZE] = "Max file size", [RLIMIT_DATA] = "Max data size",
		[RLIMIT_STACK] = "Max stack size", [RLIMIT_CORE] = "Max core file size", [RLIMIT_RSS] = "Max resident set",
		[RLIMIT_NPROC] = "Max processes", [RLIMIT_NOFILE] = "Max open files", [RLIMIT_MEMLOCK] = "Max locked memory",
		[RLIMIT_AS] = "Max address space", [RLIMIT_LOCKS] = "Max file locks", [RLIMIT_SIGPENDING] = "Max pending signals",
		[RLIMIT_MSGQUEUE] = "Max msgqueue size", [RLIMIT_NICE] = "Max nice priority",
		[RLIMIT_RTPRIO] = "Max realtime priority", [RLIMIT_RTTIME] = "Max realtime timeout",
	};
	/* clang-format on */
	char line[256], soft[32], hard[32];
	int r = -1;
	FILE *f;

	if (what < 0 || (size_t)what >= sizeof(names) / sizeof(names[0]))
		return -1;
	(void)snprintf(line, sizeof(line), "/proc/%ld/limits", pid);
	f = plain_fopen(line);
	while (f && r < 0 && fgets(line, sizeof(line), f)) {
		size_t len = strlen(names[what]);

		if (strncmp(line, names[what], len) != 0 ||
		    sscanf(line + len, " %31s %31s", soft, hard) != 2)
			continue;
		ret->rlim_cur = soft[0] == 'u' ? RLIM_INFINITY : strtoull(soft, NULL, 10);
		ret->rlim_max = hard[0] == 'u' ? RLIM_INFINITY : strtoull(hard, NULL, 10);
		r = 0;
	}
	if (f)
		(void)fclose(f);
	errno = EPERM;
	return r;
}

/* The kernel also charges a sandbox's resources to the owner of its user namespace, and that must
 * not be root. Files are still opened as root. */
static long clone_as_owner(struct clone_args *args, size_t size)
{
	long r;

	(void)prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0);
	(void)next_syscall(SYS_setresuid, -1, owner, -1);
	(void)next_syscall(SYS_setfsuid, 0);
	r = next_syscall(SYS_clone3, args, size);
	if (r == 0)
		return 0; /* in that namespace it takes its own ids */
	(void)next_syscall(SYS_setresuid, -1, 0, -1);
	(void)prctl(PR_SET_SECUREBITS, 0, 0, 0, 0);
	return r;
}

long syscall(long number, ...)
{
	long a[6], r;
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_clone3 && owner && ((struct clone_args *)a[0])->flags & CLONE_NEWUSER)
		return clone_as_owner((struct clone_args *)a[0], (size_t)a[1]);
	r = next_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (r < 0 && errno == EPERM && number == SYS_prlimit64 && !a[2] && a[3])
		return read_limit(a[0], a[1], (struct rlimit *)a[3]);
	return r;
}

ssize_t read(int fd, void *buf, size_t len)
{
	if (!is_dump && len == SELFMAG + 1 &&
	    next_syscall(SYS_pread64, fd, buf, len, (off_t)0) == SELFMAG + 1 &&
	    memcmp(buf, ELFMAG, SELFMAG) == 0)
		return SELFMAG + 1;
	return next_syscall(SYS_read, fd, buf, len);
}

ssize_t readlink(const char *path, char *buf, size_t size)
{
	ssize_t n = next_syscall(SYS_readlinkat, AT_FDCWD, path, buf, size);

	if (is_dump && n > 0 && (size_t)n + 1 < size)
		buf[n] = buf[n + 1] = '\0';
	return n;
}

#define NO_ID ((uid_t)-1)

static int unowned_fd = -1; /* the last one that was to have no owner */

int fchownat(int dir_fd, const char *path, uid_t uid, gid_t gid, int flags)
{
	unowned_fd = uid == NO_ID && gid == NO_ID && (flags & AT_EMPTY_PATH) ? dir_fd : -1;
	return (int)next_syscall(SYS_fchownat, dir_fd, path, uid, gid, flags);
}

int fstatat(int dir_fd, const char *path, struct stat *st, int flags)
{
	int r = (int)next_syscall(SYS_newfstatat, dir_fd, path, st, flags);

	if (r == 0 && !is_dump && dir_fd == unowned_fd && (flags & AT_EMPTY_PATH) && !*path) {
		st->st_uid = st->st_gid = NO_ID;
		unowned_fd = -1;
	}
	return r;
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	int r = next_getsockopt(fd, level, name, value, len);

	if (r == 0 || errno != EOPNOTSUPP || level != SOL_SOCKET || *len < sizeof(int) ||
	    (name != SO_PASSCRED && name != SO_PASSSEC))
		return r;
	*(int *)value = 0;
	*len = sizeof(int);
	return 0;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	int r = next_setsockopt(fd, level, name, value, len);

	if (r == 0 || errno != EPERM || level != SOL_SOCKET)
		return r;
	switch (name) {
	case SO_SNDBUFFORCE:
		return next_setsockopt(fd, level, SO_SNDBUF, value, len);
	case SO_RCVBUFFORCE:
		return next_setsockopt(fd, level, SO_RCVBUF, value, len);
	case SO_MARK:
		return len == sizeof(int) && *(const int *)value == 0 ? 0 : r;
	default:
		return r;
	}
}

static long trace(int request, long pid, void *addr, void *data)
{
	return tracer_has(request, (pid_t)pid) ? tracer_ptrace(request, (pid_t)pid, addr, data)
	                                       : next_ptrace(request, pid, addr, data);
}

/* Sets the given registers over the thread's current ones, so that the set is complete. */
static long set_whole(long pid, const struct iovec *given)
{
	static _Alignas(64) char bytes[XSTATE_MAX];
	struct iovec whole = {bytes, sizeof(bytes)};
	void *const which = (void *)(unsigned long)NT_X86_XSTATE;

	if (trace(PTRACE_GETREGSET, pid, which, &whole) < 0)
		return -1;
	if (given->iov_len >= whole.iov_len) {
		errno = EFAULT;
		return -1;
	}
	(void)memcpy(bytes, given->iov_base, given->iov_len);
	return trace(PTRACE_SETREGSET, pid, which, &whole);
}

long ptrace(enum __ptrace_request request, ...)
{
	long pid, which, r;
	void *data;
	va_list args;

	va_start(args, request);
	pid = va_arg(args, long);
	which = va_arg(args, long);
	data = va_arg(args, void *);
	va_end(args);
	r = trace((int)request, pid, (void *)which, data);
	if (r < 0 && errno == EFAULT && request == PTRACE_SETREGSET && which == NT_X86_XSTATE)
		return set_whole(pid, data);
	/* A stopped thread stays until it is released; only SIGKILL can end it before. */
	if (r < 0 && errno == ESRCH && request == PTRACE_DETACH && !is_dump)
		return 0;
	return r;
}

pid_t fork(void)
{
	pid_t pid = next_fork();

	if (pid == 0 && is_dump)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	int own = 0;
	pid_t r;

	if (!tracer_waits_for(pid, options))
		return next_wait4(pid, status, options, usage);
	r = tracer_wait4(pid, &own, options, usage);
	if (r > 0 && status)
		*status = own;
	/* If the traced process is a child of CRIU, CRIU must reap it as well. */
	if (r > 0 && !WIFSTOPPED(own))
		(void)next_wait4(r, NULL, WNOHANG | __WALL, NULL);
	return r;
}

pid_t waitpid(pid_t pid, int *status, int options)
{
	return wait4(pid, status, options, NULL);
}
