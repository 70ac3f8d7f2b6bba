// SPDX-License-Identifier: Apache-2.0
/*
 * Which system calls a part may make. All but the broker have an allow-list, since they start no
 * program and use only fds and, some of them, files.
 *
 * The broker has a deny-list. It is root, mounts, enters namespaces and runs mkfs: an allow-list
 * would have to include every call with which root can harm a host, so it would add little, and it
 * would break with the next library. Refused are calls by which root gets code into the kernel or
 * another process, and calls that many exploits have used: modules, kexec, BPF, tracing, io_uring.
 * Calls that only the starter's children make (src/loop/starter.h) are refused too: CRIU traces,
 * and the kernel lets it read filters of other processes only while it has none itself. CRIU also
 * lacks the capabilities that nobody needs (confine_all()).
 *
 * A refused call traps: the handler logs it and makes it fail with EPERM, which a library that only
 * tries something survives. A program that was exec'ed has no handler: it dies by SIGSYS, and its
 * parent reports that.
 */
#include "daemon/confine/confine.h"

#include "base/log.h"

#include <assert.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#define NUMBERS_MAX 512 /* above every system call number of the two architectures */

/* The handler's messages, by number: made before the filter is loaded. */
static char *names[NUMBERS_MAX];

/* By name, since some exist on one architecture only. For files below its root: SQLite and
 * spools. */
static const char *const of_files[] = {
	"openat",     "open",      "pread64",    "pwrite64",  "lseek",    "stat",       "lstat",
	"newfstatat", "statx",     "ftruncate",  "fallocate", "fsync",    "fdatasync",  "flock",
	"access",     "faccessat", "faccessat2", "getcwd",    "readlink", "readlinkat", "mkdir",
	"mkdirat",    "rmdir",     "unlink",     "unlinkat",  "rename",   "renameat",   "renameat2",
	"getdents64", "fstatfs",   "fchmod",     "umask",     "dup",      "dup3",
};

static const char *const of_all[] = {
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

/* What the dialer needs on top: to resolve names, to connect, a child for each call. */
static const char *const of_dialer[] = {
	"socket", "connect", "bind",   "sendmmsg",   "recvmmsg", "clone",     "clone3",
	"fork",   "wait4",   "waitid", "pidfd_open", "alarm",    "setitimer",
};

/* What the wall needs on top: to connect, and to read the host's addresses (netlink). */
static const char *const of_wall[] = {"socket", "connect", "bind"};

/* The member on top of that: peers come to it, and each stream is a pair for the gateway. */
static const char *const of_member[] = {"socket", "connect", "bind", "listen", "socketpair"};

/* The launcher: the starter forks the parts (part_starter.h). The launcher kills and reaps them,
 * and notifies systemd. */
static const char *const of_launcher[] = {
	"socket", "connect", "bind",     "pidfd_open", "pidfd_send_signal", "waitid",
	"wait4",  "chmod",   "fchmodat", "chown",      "fchownat",
};

/* clang-format off */
static const char *const refused_of_broker[] = {
	/* code in the kernel, or another kernel */
	"init_module", "finit_module", "delete_module", "create_module", "kexec_load", "kexec_file_load", "bpf", "perf_event_open",
	"iopl", "ioperm", "modify_ldt", "reboot",
	/* into other processes */
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp", "move_pages", "migrate_pages",
	/* much code in the kernel that nobody here needs */
	"io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup", "io_submit", "userfaultfd", "fanotify_init", "fanotify_mark",
	"add_key", "request_key", "keyctl", "vmsplice", "memfd_secret", "remap_file_pages", "personality", "uselib", "vm86", "vm86old",
	/* the host's clock, log, disks and books */
	"settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "stime", "syslog", "acct", "swapon", "swapoff", "quotactl",
	"quotactl_fd", "sethostname", "setdomainname", "vhangup",
	/* files by other ways than their names */
	"open_by_handle_at", "name_to_handle_at", "pivot_root", "lookup_dcookie", "nfsservctl", "ustat", "sysfs", "_sysctl",
};

struct call_list {
	const char *const *names;
	size_t n;
};
#define LIST(array) {array, ARRAY_SIZE(array)}

static const struct {
	struct call_list lists[3];
	bool is_refusal;        /* of these calls, and all others pass */
	struct call_list tried; /* by libraries, which go on without: these fail without a log line */
} parts[] = {
	[CONFINE_GATEWAY]  = {{LIST(of_all), LIST(of_files)}},
	[CONFINE_DIALER]   = {{LIST(of_all), LIST(of_files), LIST(of_dialer)}},
	[CONFINE_WALL]     = {{LIST(of_all), LIST(of_wall)}, .tried = LIST(of_files)},
	[CONFINE_LAUNCHER] = {{LIST(of_all), LIST(of_files), LIST(of_launcher)}},
	[CONFINE_BROKER]   = {{LIST(refused_of_broker)}, .is_refusal = true},
	[CONFINE_MEMBER]   = {{LIST(of_all), LIST(of_files), LIST(of_member)}},
};
/* clang-format on */
static_assert(ARRAY_SIZE(parts) == CONFINE_PART_COUNT, "a part has no row");

/* Makes the call return -EPERM. Logging is safe here: the trap comes from a call of ours, and no
 * call of the log or the allocator is refused. */
static void on_refused(int signo, siginfo_t *info, void *context)
{
	mcontext_t *registers = &((ucontext_t *)context)->uc_mcontext;
	const int saved_errno = errno;
	const unsigned number = (unsigned)info->si_syscall;
	char *name = number < NUMBERS_MAX ? names[number] : NULL;

	(void)signo;
#if defined(__x86_64__)
	registers->gregs[REG_RAX] = -EPERM;
#elif defined(__aarch64__)
	registers->regs[0] = (uint64_t)-EPERM;
#else
#error "which register has the result?"
#endif
	if (name) { /* logged only once */
		names[number] = NULL;
		log_error("daemon.call_refused", "call=%s number=%u pid=%d", name, number,
		          getpid());
	}
	errno = saved_errno;
}

static int prepare_handler(void)
{
	struct sigaction action = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO | SA_NODEFER};

	for (int n = 0; n < NUMBERS_MAX; n++)
		if (!names[n])
			names[n] = seccomp_syscall_resolve_num_arch(seccomp_arch_native(), n);
	return sigaction(SIGSYS, &action, NULL) < 0 ? -errno : 0;
}

static int add_names(scmp_filter_ctx ctx, const struct call_list *list, uint32_t action)
{
	for (size_t i = 0; i < list->n; i++) {
		int nr = seccomp_syscall_resolve_name(list->names[i]);
		int r;

		if (nr < 0) /* not on this architecture */
			continue;
		r = seccomp_rule_add(ctx, action, nr, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

/* No executable memory; signals only to itself (abort()); isatty() of stderr for the log; socket
 * pairs within itself; it can read its limits but not set them. */
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
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2,
		                     SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_EQ, 0));
	return r;
}

int confine_calls(enum confine_part part)
{
	const bool is_refusal = parts[part].is_refusal;
	scmp_filter_ctx ctx = seccomp_init(is_refusal ? SCMP_ACT_ALLOW : SCMP_ACT_TRAP);
	int r = ctx ? prepare_handler() : -ENOMEM;

	/* A foreign ABI (i386, x32) has other numbers, and no honest code here uses it. */
	if (r == 0)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r == 0)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1); /* for all threads */
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts[part].lists); i++)
		r = add_names(ctx, &parts[part].lists[i],
		              is_refusal ? SCMP_ACT_TRAP : SCMP_ACT_ALLOW);
	if (r == 0)
		r = add_names(ctx, &parts[part].tried, SCMP_ACT_ERRNO(EPERM));
	if (r == 0 && !is_refusal)
		r = allow_with_arguments(ctx);
	if (r == 0)
		r = seccomp_load(ctx);
	if (ctx)
		seccomp_release(ctx);
	return r;
}
