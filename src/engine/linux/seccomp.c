// SPDX-License-Identifier: Apache-2.0
/*
 * libseccomp only gives the system call numbers for this architecture. The program is assembled
 * here, because rules for one call with different results must be tried in the order in which they
 * are written, and libseccomp does not promise that order.
 *
 * Arguments are compared by their low 32 bits: each of those checked here is an int or unsigned int
 * to the kernel, which ignores the rest too (CVE-2019-10063 was a filter that did not).
 *
 * Calls whose result depends only on the number are answered from the kernel's bitmap (5.11). To
 * fill it, the kernel runs the program for each number whenever a jail loads it, so its length and
 * depth cost time at each start. So neighbouring numbers with one verdict are joined to runs, and
 * the runs are a binary tree
 *	arch check, then   number >= first of the upper half?  no: lower half   yes: upper half
 * whose leaves are a verdict, or the block that judges one call.
 */
#include "engine/linux/seccomp.h"

#include <linux/audit.h>
#include <linux/if_packet.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "which audit architecture is this?"
#endif
#define X32_BIT      0x40000000U
#define NUMBER_LIMIT 1024 /* above every system call number of the two architectures */

#define REFUSE(errnum) (SECCOMP_RET_ERRNO | (errnum))

/* clang-format off */
static const char *const allowed[] = {
	"_llseek", "_newselect", "accept", "accept4", "access", "alarm", "arch_prctl", "bind", "brk", "cachestat",
	"capget", "capset", "chdir", "chmod", "chown", "clock_getres", "clock_gettime", "clock_nanosleep", "close",
	"close_range", "connect", "copy_file_range", "creat", "dup", "dup2", "dup3", "epoll_create", "epoll_create1",
	"epoll_ctl", "epoll_ctl_old", "epoll_pwait", "epoll_pwait2", "epoll_wait", "epoll_wait_old", "eventfd",
	"eventfd2", "execve", "execveat", "exit", "exit_group", "faccessat", "faccessat2", "fadvise64", "fadvise64_64",
	"fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync",
	"fgetxattr", "flistxattr", "flock", "fork", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync",
	"ftruncate", "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake", "futimesat", "get_robust_list",
	"get_thread_area", "getcpu", "getcwd", "getdents", "getdents64", "getegid", "geteuid", "getgid", "getgroups",
	"getitimer", "getpeername", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getrandom", "getresgid",
	"getresuid", "getrlimit", "getrusage", "getsid", "getsockname", "getsockopt", "gettid", "gettimeofday",
	"getuid", "getxattr", "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "ioprio_get",
	"ioprio_set", "kill", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "lchown",
	"lgetxattr", "link", "linkat", "listen", "listxattr", "llistxattr", "lremovexattr", "lseek", "lsetxattr",
	"lstat", "madvise", "map_shadow_stack", "membarrier", "memfd_create", "mincore", "mkdir", "mkdirat", "mlock",
	"mlock2", "mlockall", "mmap", "mprotect", "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive",
	"mq_timedsend", "mq_unlink", "mremap", "msgctl", "msgget", "msgrcv", "msgsnd", "msync", "munlock", "munlockall",
	"munmap", "nanosleep", "newfstatat", "open", "openat", "openat2", "pause", "pidfd_open", "pidfd_send_signal",
	"pipe", "pipe2", "pkey_alloc", "pkey_free", "pkey_mprotect", "poll", "ppoll", "prctl", "pread64", "preadv",
	"preadv2", "prlimit64", "pselect6", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink",
	"readlinkat", "readv", "recvfrom", "recvmmsg", "recvmsg", "removexattr", "rename", "renameat", "renameat2",
	"restart_syscall", "rmdir", "rseq", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo",
	"rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sched_get_priority_max",
	"sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam", "sched_getscheduler",
	"sched_rr_get_interval", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler",
	"sched_yield", "seccomp", "select", "semctl", "semget", "semop", "semtimedop", "sendfile", "sendmmsg",
	"sendmsg", "sendto", "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid", "setfsuid", "setgid",
	"setgroups", "setitimer", "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid",
	"setrlimit", "setsid", "setuid", "setxattr", "shmat", "shmctl", "shmdt", "shmget", "shutdown", "sigaltstack",
	"signalfd", "signalfd4", "stat", "statfs", "statx", "symlink", "symlinkat", "sync_file_range",
	"sysinfo", "tgkill", "time", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime",
	"timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime", "times", "tkill", "truncate", "umask",
	"uname", "unlink", "unlinkat", "utime", "utimensat", "utimes", "vfork", "wait4", "waitid", "write", "writev",
};

/* Libraries try these and go on without them. A number that is too new for us gets ENOSYS too. */
static const char *const absent[] = {
	"add_key", "clone3", "get_mempolicy", "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup",
	"io_submit", "io_uring_enter", "io_uring_register", "io_uring_setup", "keyctl", "mbind", "memfd_secret",
	"migrate_pages", "move_pages", "request_key", "set_mempolicy", "set_mempolicy_home_node", "userfaultfd",
	"vmsplice",
};

/* These succeed without doing anything: else a guest could make the host sync its other disks, or
 * the data of all sandboxes, as often as it likes. Kept files are synced to disk when a sandbox
 * stops; fsync() works. */
static const char *const skipped[] = {"sync", "syncfs"};
/* clang-format on */

struct assembler {
	struct seccomp_program *out;
	bool is_full;
};

static void emit(struct assembler *a, struct sock_filter code)
{
	if (a->out->len == SECCOMP_PROGRAM_MAX)
		a->is_full = true;
	else
		a->out->code[a->out->len++] = code;
}

static void load_arg(struct assembler *a, unsigned n)
{
	emit(a, (struct sock_filter)BPF_STMT(
			BPF_LD | BPF_W | BPF_ABS,
			(uint32_t)(offsetof(struct seccomp_data, args) + n * sizeof(uint64_t))));
}

static void mask(struct assembler *a, uint32_t bits)
{
	emit(a, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits));
}

static void result(struct assembler *a, uint32_t action)
{
	emit(a, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Returns action if the loaded value equals value. */
static void result_if(struct assembler *a, uint32_t value, uint32_t action)
{
	emit(a, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
	result(a, action);
}

static void result_if_any_bit(struct assembler *a, uint32_t bits, uint32_t action)
{
	emit(a, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
	result(a, action);
}

/* Opens a block that is skipped unless the loaded value equals value; close_if() ends it. */
static unsigned short open_if(struct assembler *a, uint32_t value)
{
	emit(a, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 0));
	return a->out->len;
}

static void close_if(struct assembler *a, unsigned short start)
{
	if (!a->is_full)
		a->out->code[start - 1].jf = (uint8_t)(a->out->len - start);
}

static void judge_clone(struct assembler *a)
{
	const uint32_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
	                            CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

	load_arg(a, 0);
	result_if_any_bit(a, namespaces, REFUSE(EPERM));
	result(a, SECCOMP_RET_ALLOW);
}

/* Streams and datagrams of the internet protocols, local sockets, and routing questions. */
static void judge_socket(struct assembler *a)
{
	static const uint32_t inet[] = {AF_INET, AF_INET6};
	static const uint32_t protocols[] = {0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP,
	                                     IPPROTO_ICMPV6};
	unsigned short netlink;

	load_arg(a, 0);
	result_if(a, AF_UNIX, SECCOMP_RET_ALLOW);
	netlink = open_if(a, AF_NETLINK);
	load_arg(a, 2);
	result_if(a, 0 /* NETLINK_ROUTE */, SECCOMP_RET_ALLOW);
	/* useradd and the like give up on any other error of NETLINK_AUDIT. */
	result_if(a, 9 /* NETLINK_AUDIT */, REFUSE(EPROTONOSUPPORT));
	result(a, REFUSE(EPERM));
	close_if(a, netlink);
	for (size_t i = 0; i < ARRAY_SIZE(inet); i++) {
		unsigned short family;

		load_arg(a, 0);
		family = open_if(a, inet[i]);
		for (uint32_t type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
			unsigned short block;

			load_arg(a, 1);
			mask(a, 0xf); /* SOCK_CLOEXEC and SOCK_NONBLOCK lie above */
			block = open_if(a, type);
			load_arg(a, 2);
			for (size_t k = 0; k < ARRAY_SIZE(protocols); k++)
				result_if(a, protocols[k], SECCOMP_RET_ALLOW);
			/* MPTCP, SCTP, SMC: the same error as on a kernel without them. */
			result(a, REFUSE(EPROTONOSUPPORT));
			close_if(a, block);
		}
		result(a, REFUSE(EPERM));
		close_if(a, family);
	}
	result(a, REFUSE(EPERM));
}

static void judge_socketpair(struct assembler *a)
{
	load_arg(a, 0);
	result_if(a, AF_UNIX, SECCOMP_RET_ALLOW);
	result(a, REFUSE(EPERM));
}

static void judge_personality(struct assembler *a)
{
	load_arg(a, 0);
	result_if(a, 0, SECCOMP_RET_ALLOW);
	result_if(a, 0xffffffffU, SECCOMP_RET_ALLOW); /* asks only */
	result(a, REFUSE(EPERM));
}

static void judge_node(struct assembler *a, unsigned mode_arg)
{
	load_arg(a, mode_arg);
	mask(a, S_IFMT);
	result_if(a, S_IFCHR, REFUSE(EPERM));
	result_if(a, S_IFBLK, REFUSE(EPERM));
	result(a, SECCOMP_RET_ALLOW);
}

static void judge_mknod(struct assembler *a)
{
	judge_node(a, 1);
}

static void judge_mknodat(struct assembler *a)
{
	judge_node(a, 2);
}

static void judge_ioctl(struct assembler *a)
{
	static const uint32_t refused[] = {
		0x5412,     /* TIOCSTI: types into a terminal */
		0x541c,     /* TIOCLINUX */
		0x541d,     /* TIOCCONS */
		0x5423,     /* TIOCSETD: loads line disciplines */
		0x40086602, /* FS_IOC_SETFLAGS */
		0x401c5820, /* FS_IOC_FSSETXATTR */
	};
	/* All ioctls of btrfs, and FICLONE and the like, which work on pages that sandboxes share.
	 * A volume is directly on btrfs, and a subvolume that anybody could make there would have
	 * no limit. */
	const uint32_t letter = 0x9400, letter_bits = 0xff00;

	load_arg(a, 1);
	mask(a, letter_bits);
	result_if(a, letter, REFUSE(EPERM));
	load_arg(a, 1);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		result_if(a, refused[i], REFUSE(EPERM));
	result(a, SECCOMP_RET_ALLOW);
}

/* Options that load BPF, or that reach kernel code with a history of writing to read-only pages. */
static void judge_setsockopt(struct assembler *a)
{
	static const struct {
		uint32_t level, option;
	} refused[] = {
		{IPPROTO_TCP, 31 /* TCP_ULP */},
		{IPPROTO_UDP, 100 /* UDP_ENCAP */},
		{SOL_SOCKET, SO_ATTACH_BPF},
		{SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF},
		{SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF},
	};

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		unsigned short level;

		load_arg(a, 1);
		level = open_if(a, refused[i].level);
		load_arg(a, 2);
		result_if(a, refused[i].option, REFUSE(ENOPROTOOPT));
		close_if(a, level);
	}
	result(a, SECCOMP_RET_ALLOW);
}

static void refuse_splice(struct assembler *a)
{
	result(a, REFUSE(EINVAL)); /* cat, cp and the like then read and write */
}

static const struct {
	const char *name;
	void (*judge)(struct assembler *a); /* ends in a result whatever the arguments */
} judged[] = {
	{"clone", judge_clone},           {"ioctl", judge_ioctl},
	{"socket", judge_socket},         {"setsockopt", judge_setsockopt},
	{"socketpair", judge_socketpair}, {"personality", judge_personality},
	{"mknod", judge_mknod},           {"mknodat", judge_mknodat},
	{"splice", refuse_splice},        {"tee", refuse_splice},
};

/* -1 where this architecture has no such call. */
static int number_of(const char *name)
{
	int n = seccomp_syscall_resolve_name(name);

	return n >= 0 && n < NUMBER_LIMIT ? n : -1;
}

static void emit_arch_check(struct assembler *a)
{
	emit(a, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
	                                     offsetof(struct seccomp_data, arch)));
	emit(a, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0));
	result(a, SECCOMP_RET_KILL_PROCESS);
	emit(a, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
	                                     offsetof(struct seccomp_data, nr)));
#if defined(__x86_64__)
	emit(a, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
	result(a, SECCOMP_RET_KILL_PROCESS);
#endif
}

/* The verdict for a number and those after it, up to the next run. */
struct run {
	uint32_t first;
	uint32_t action;
	void (*judge)(struct assembler *a); /* NULL: action is all */
};

static void decide_listed(struct run *verdicts, const char *const *names, size_t n, uint32_t action)
{
	for (size_t i = 0; i < n; i++)
		if (number_of(names[i]) >= 0)
			verdicts[number_of(names[i])].action = action;
}

static void decide(struct run verdicts[NUMBER_LIMIT])
{
	for (int n = 0; n < NUMBER_LIMIT; n++) {
		auto_free char *name = seccomp_syscall_resolve_num_arch(seccomp_arch_native(), n);

		verdicts[n] = (struct run){.first = (uint32_t)n,
		                           .action = name ? REFUSE(EPERM) : REFUSE(ENOSYS)};
	}
	decide_listed(verdicts, absent, ARRAY_SIZE(absent), REFUSE(ENOSYS));
	decide_listed(verdicts, skipped, ARRAY_SIZE(skipped), REFUSE(0));
	decide_listed(verdicts, allowed, ARRAY_SIZE(allowed), SECCOMP_RET_ALLOW);
	for (size_t i = 0; i < ARRAY_SIZE(judged); i++)
		if (number_of(judged[i].name) >= 0)
			verdicts[number_of(judged[i].name)].judge = judged[i].judge;
}

/* Joins in place. The last run also covers every number above the limit: those are too new. */
static size_t join_runs(struct run verdicts[NUMBER_LIMIT])
{
	size_t n = 1;

	for (size_t i = 1; i < NUMBER_LIMIT; i++)
		if (verdicts[i].judge || verdicts[n - 1].judge ||
		    verdicts[i].action != verdicts[n - 1].action)
			verdicts[n++] = verdicts[i];
	return n;
}

/* A conditional jump reaches only 255 instructions; a BPF_JA after it reaches any. */
static void jump_over(struct assembler *a, unsigned short lower)
{
	struct sock_filter *test = &a->out->code[lower - 2], *far = test + 1;
	size_t len = (size_t)(a->out->len - lower);

	if (len > UINT8_MAX) {
		far->k = (uint32_t)len;
		test->jf = 1;
		return;
	}
	memmove(far, far + 1, len * sizeof(*far));
	a->out->len--;
	test->jt = (uint8_t)len;
}

static void emit_tree(struct assembler *a, const struct run *runs, size_t n)
{
	const struct run *upper = runs + n / 2;
	unsigned short lower;

	if (n == 1) {
		if (runs->judge)
			runs->judge(a);
		else
			result(a, runs->action);
		return;
	}
	emit(a, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, upper->first, 0, 0));
	emit(a, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
	lower = a->out->len;
	emit_tree(a, runs, n / 2);
	if (!a->is_full)
		jump_over(a, lower);
	emit_tree(a, upper, n - n / 2);
}

int seccomp_build(struct seccomp_program *ret, struct err *err)
{
	struct assembler a = {.out = ret};
	struct run verdicts[NUMBER_LIMIT];

	ret->len = 0;
	decide(verdicts);
	emit_arch_check(&a);
	emit_tree(&a, verdicts, join_runs(verdicts));
	if (a.is_full)
		return err_set(err, ERR_INTERNAL, E2BIG, "the system call filter is too long");
	return 0;
}

int seccomp_load_program(const struct seccomp_program *program)
{
	struct sock_fprog prog = {.len = program->len, .filter = unconst(program->code)};

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}
