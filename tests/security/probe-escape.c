// SPDX-License-Identifier: Apache-2.0
/*
 * Attempts to reach out of the sandbox by system calls: namespaces, mounts, other processes,
 * kernel doors, odd sockets, terminals. E04–E15, E17, E29, E31, E33, E34 and E36 of the abuse
 * catalogue.
 */
#include "probe.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Newer than the headers of the oldest supported build host. */
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *name;
	int flag;
} namespaces[] = {
	{"NEWUSER", CLONE_NEWUSER},     {"NEWNS", CLONE_NEWNS},     {"NEWPID", CLONE_NEWPID},
	{"NEWNET", CLONE_NEWNET},       {"NEWIPC", CLONE_NEWIPC},   {"NEWUTS", CLONE_NEWUTS},
	{"NEWCGROUP", CLONE_NEWCGROUP}, {"NEWTIME", CLONE_NEWTIME},
};

static void unshare_one(const void *arg)
{
	size_t i = *(const size_t *)arg;

	tell_case("unshare", namespaces[i].name, syscall(SYS_unshare, namespaces[i].flag));
}

static void clone_one(const void *arg)
{
	size_t i = *(const size_t *)arg;
	long pid;

	/* The flags are the first argument on both architectures; no stack: a fork. */
	pid = syscall(SYS_clone, (unsigned long)namespaces[i].flag | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(0);
	tell_case("clone", namespaces[i].name, pid < 0 ? -1 : 0);
}

static void *thread_main(void *arg)
{
	*(int *)arg = 1;
	return NULL;
}

static int run_namespaces(int argc, char **argv)
{
	static const char *const links[] = {"user", "mnt", "net", "pid"};
	struct {
		uint64_t flags, rest[10];
	} args = {.flags = CLONE_NEWUSER};
	pthread_t thread;
	int seen = 0;

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++)
		(void)in_child(unshare_one, &i);
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++)
		if (namespaces[i].flag !=
		    CLONE_NEWTIME) /* in clone() that bit is part of the signal */
			(void)in_child(clone_one, &i);
	/* A size that no kernel takes: where the call is open it says EINVAL. */
	tell("clone3", syscall(SYS_clone3, &args, 8UL));
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		char path[64];
		int fd;

		(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", links[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		tell_case("setns", links[i], syscall(SYS_setns, fd, 0));
		if (fd >= 0)
			(void)close(fd);
	}
	if (pthread_create(&thread, NULL, thread_main, &seen) == 0)
		(void)pthread_join(thread, NULL);
	tell("thread", seen ? 0 : -1);
	return 0;
}

static int run_mounts(int argc, char **argv)
{
	struct {
		uint64_t set, clear, propagation, userns_fd;
	} attr = {.clear = 1 /* MOUNT_ATTR_RDONLY */};
	int fd;

	(void)argc;
	(void)argv;
	tell_case("mount", "tmpfs", syscall(SYS_mount, "none", "/tmp", "tmpfs", 0UL, NULL));
	tell_case("mount", "proc", syscall(SYS_mount, "none", "/tmp", "proc", 0UL, NULL));
	tell_case("mount", "bind",
	          syscall(SYS_mount, "/tmp", "/tmp", NULL, (unsigned long)MS_BIND, NULL));
	tell_case("mount", "remount",
	          syscall(SYS_mount, NULL, "/", NULL, (unsigned long)(MS_REMOUNT | MS_BIND), NULL));
	tell_case("mount", "cgroup", syscall(SYS_mount, "none", "/tmp", "cgroup2", 0UL, NULL));
	tell_case("mount", "binfmt_misc",
	          syscall(SYS_mount, "none", "/tmp", "binfmt_misc", 0UL, NULL));
	tell("umount2", syscall(SYS_umount2, "/tmp", 0));
	fd = (int)syscall(SYS_fsopen, "tmpfs", 0);
	tell("fsopen", fd);
	tell("fsmount", syscall(SYS_fsmount, fd, 0, 0));
	tell("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/tmp", 1U /* OPEN_TREE_CLONE */));
	tell("move_mount", syscall(SYS_move_mount, AT_FDCWD, "/tmp", AT_FDCWD, "/tmp", 0));
	tell("mount_setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof(attr)));
	tell("pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp"));
	return 0;
}

static void chroot_out(const void *arg)
{
	(void)arg;
	tell("chroot", syscall(SYS_chroot, "/tmp"));
}

static int run_chroot(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return in_child(chroot_out, NULL);
}

/* Without a pid: against a child of its own, which shows that the calls work where they are let. */
static int run_ptrace(int argc, char **argv)
{
	pid_t pid = (pid_t)word_number(argc, argv, 0, 0), child = -1;
	long here = 0, there = 1;
	struct iovec local = {&there, sizeof(there)}, remote = {&here, sizeof(here)};
	char path[64];
	int fd;

	if (pid != 0 && !is_inside())
		return 2;
	if (pid == 0) {
		child = fork();
		if (child == 0) {
			(void)pause();
			_exit(0);
		}
		pid = child;
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	tell("proc_mem", fd);
	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	tell("proc_exe_write", open(path, O_RDWR | O_CLOEXEC) < 0 ? -1 : 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	tell("proc_environ", fd < 0 ? -1 : 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	tell("proc_fd", fd < 0 ? -1 : 0);
	tell("process_vm_readv",
	     syscall(SYS_process_vm_readv, pid, &local, 1UL, &remote, 1UL, 0UL));
	tell("process_vm_writev",
	     syscall(SYS_process_vm_writev, pid, &local, 1UL, &remote, 1UL, 0UL));
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	tell("pidfd_getfd", syscall(SYS_pidfd_getfd, fd, 0, 0) < 0 ? -1 : 0);
	tell("ptrace_seize", syscall(SYS_ptrace, (long)PTRACE_SEIZE, (long)pid, NULL, NULL));
	if (child > 0) {
		(void)kill(child, SIGKILL);
		(void)waitpid(child, NULL, 0);
	} else {
		/* Signal 0 tells only whether more would be let; a fatal one is the test's last
		 * act. */
		tell("kill_0", syscall(SYS_kill, pid, 0));
		tell("kill_term", syscall(SYS_kill, pid, SIGTERM));
		tell("kill_kill", syscall(SYS_kill, pid, SIGKILL));
		tell("kill_stop", syscall(SYS_kill, pid, SIGSTOP));
	}
	return 0;
}

/* Whether a pid of the host means anything in here. Sends nothing but signal 0. */
static int run_pid(int argc, char **argv)
{
	pid_t pid = (pid_t)word_number(argc, argv, 0, 0);

	tell("kill", syscall(SYS_kill, pid, 0));
	tell("pidfd_open", syscall(SYS_pidfd_open, pid, 0) < 0 ? -1 : 0);
	return 0;
}

/* Ends every process that this user may signal, in its own pid namespace only. */
static int run_kill_all(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	if (!is_inside())
		return 2;
	tell("kill_all", syscall(SYS_kill, -1, SIGKILL));
	return 0;
}

static int run_keys(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	tell("keyctl", syscall(SYS_keyctl, 0 /* GET_KEYRING_ID */, -3 /* session */, 0));
	tell("add_key",
	     syscall(SYS_add_key, "user", "cloche-probe", "x", 1UL, -1 /* thread ring */));
	tell("request_key", syscall(SYS_request_key, "user", "cloche-probe", NULL, -1));
	return 0;
}

/* Each with arguments that the kernel refuses by itself, so that an open door shows another errno.
 */
static int run_doors(int argc, char **argv)
{
	char empty[128] = {0};

	(void)argc;
	(void)argv;
	tell("bpf", syscall(SYS_bpf, 9999, empty, sizeof(empty)));
	tell("perf_event_open", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0UL));
	tell("fanotify_init", syscall(SYS_fanotify_init, ~0U, 0U));
	tell("io_uring_setup", syscall(SYS_io_uring_setup, 0U, NULL));
	tell("io_uring_enter", syscall(SYS_io_uring_enter, -1, 0U, 0U, 0U, NULL, 0UL));
	tell("io_uring_register", syscall(SYS_io_uring_register, -1, 0U, NULL, 0U));
	tell("userfaultfd", syscall(SYS_userfaultfd, ~0));
	tell("kexec_load", syscall(SYS_kexec_load, 0UL, 9999UL, NULL, 0UL));
	tell("kexec_file_load", syscall(SYS_kexec_file_load, -1, -1, 0UL, NULL, ~0UL));
	tell("reboot", syscall(SYS_reboot, 0, 0, 0, NULL)); /* wrong magic: EINVAL at best */
	tell("init_module", syscall(SYS_init_module, NULL, 0UL, ""));
	tell("finit_module", syscall(SYS_finit_module, -1, "", 0));
	tell("delete_module", syscall(SYS_delete_module, "cloche_no_such_module", O_NONBLOCK));
	tell("swapon", syscall(SYS_swapon, "/nonexistent", 0));
	tell("swapoff", syscall(SYS_swapoff, "/nonexistent"));
	tell("acct", syscall(SYS_acct, "/nonexistent"));
	tell("quotactl", syscall(SYS_quotactl, -1, NULL, 0, NULL));
	tell("syslog", syscall(SYS_syslog, 9999, NULL, 0));
	tell("settimeofday", syscall(SYS_settimeofday, (void *)1, NULL));
	tell("clock_settime", syscall(SYS_clock_settime, 0, (void *)1));
	tell("adjtimex", syscall(SYS_adjtimex, (void *)1));
	tell("sethostname", syscall(SYS_sethostname, "x", -1));
	tell("setdomainname", syscall(SYS_setdomainname, "x", -1));
	tell("personality", syscall(SYS_personality, 0x0400000UL /* READ_IMPLIES_EXEC */));
	tell("open_by_handle_at", syscall(SYS_open_by_handle_at, -1, NULL, 0));
	tell("name_to_handle_at", syscall(SYS_name_to_handle_at, -1, NULL, NULL, NULL, 0));
	tell("memfd_secret", syscall(SYS_memfd_secret, ~0U));
	tell("lookup_dcookie", syscall(SYS_lookup_dcookie, 0UL, NULL, 0UL));
	return 0;
}

static const struct {
	const char *name;
	int domain, type, protocol;
} sockets[] = {
	{"UNIX", AF_UNIX, SOCK_STREAM, 0},
	{"INET", AF_INET, SOCK_STREAM, 0},
	{"INET6", AF_INET6, SOCK_STREAM, 0},
	{"INET-DGRAM", AF_INET, SOCK_DGRAM, 0},
	{"NETLINK-ROUTE", AF_NETLINK, SOCK_RAW, 0},
	{"NETLINK-NETFILTER", AF_NETLINK, SOCK_RAW, 12},
	{"NETLINK-AUDIT", AF_NETLINK, SOCK_RAW, 9},
	{"NETLINK-GENERIC", AF_NETLINK, SOCK_RAW, 16},
	{"INET-RAW", AF_INET, SOCK_RAW, 255},
	{"INET6-RAW", AF_INET6, SOCK_RAW, 255},
	{"INET-RAW-CLOEXEC", AF_INET, SOCK_RAW | SOCK_CLOEXEC, 255},
	{"PACKET", AF_PACKET, SOCK_RAW, 0},
	{"PACKET-DGRAM", AF_PACKET, SOCK_DGRAM, 0},
	{"ALG", AF_ALG, SOCK_SEQPACKET, 0},
	{"VSOCK", AF_VSOCK, SOCK_STREAM, 0},
	{"KEY", 15, SOCK_RAW, 2},
	{"RXRPC", 33, SOCK_DGRAM, AF_INET},
	{"XDP", 44, SOCK_RAW, 0},
	{"TIPC", 30, SOCK_SEQPACKET, 0},
	{"CAN", 29, SOCK_RAW, 1},
	{"SMC", 43, SOCK_STREAM, 0},
	{"BLUETOOTH", 31, SOCK_RAW, 0},
	{"SMC-AS-PROTOCOL", AF_INET, SOCK_STREAM, 256},
};

static int run_sockets(int argc, char **argv)
{
	int pair[2];

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		long fd = syscall(SYS_socket, sockets[i].domain, sockets[i].type,
		                  sockets[i].protocol);

		tell_case("socket", sockets[i].name, fd < 0 ? -1 : 0);
		if (fd >= 0)
			(void)close((int)fd);
	}
	tell("socketpair:UNIX", syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pair));
	tell("socketpair:TIPC", syscall(SYS_socketpair, 30, SOCK_SEQPACKET, 0, pair));
	return 0;
}

/* Pages of a file that may only be read go into a socket by reference; on the own loopback. */
static long send_file_by_udp(int udp)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(to);
	int peer = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int file = open("/usr/bin/env", O_RDONLY | O_CLOEXEC);
	long ret = -1;

	if (bind(peer, (struct sockaddr *)&to, sizeof(to)) == 0 &&
	    getsockname(peer, (struct sockaddr *)&to, &len) == 0 &&
	    connect(udp, (struct sockaddr *)&to, len) == 0)
		ret = syscall(SYS_sendfile, udp, file, NULL, 512UL);
	(void)close(file);
	(void)close(peer);
	return ret;
}

/* The ways by which the page-cache bugs of recent years were reached. */
static int run_splice(int argc, char **argv)
{
	int a[2], b[2], one = 1, tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sock_fprog none = {0};
	struct iovec v = {&one, sizeof(one)};

	(void)argc;
	(void)argv;
	if (pipe2(a, O_CLOEXEC) < 0 || pipe2(b, O_CLOEXEC) < 0)
		return 3;
	if (write(a[1], "word", 4) != 4)
		return 3;
	tell("tee", syscall(SYS_tee, a[0], b[1], 4UL, 0U));
	tell("splice", syscall(SYS_splice, a[0], NULL, b[1], NULL, 4UL, 0U));
	tell("vmsplice", syscall(SYS_vmsplice, b[1], &v, 1UL, 0U));
	tell("sendfile_udp", send_file_by_udp(udp));
	tell("udp_encap", setsockopt(udp, IPPROTO_UDP, 100, &one, sizeof(one)));
	tell("tcp_ulp", setsockopt(tcp, IPPROTO_TCP, 31, "tls", 3));
	tell("attach_bpf", setsockopt(tcp, SOL_SOCKET, 50, &one, sizeof(one)));
	tell("attach_reuseport_cbpf", setsockopt(tcp, SOL_SOCKET, 51, &none, sizeof(none)));
	tell("attach_reuseport_ebpf", setsockopt(tcp, SOL_SOCKET, 52, &one, sizeof(one)));
	tell("io_setup", syscall(SYS_io_setup, 0U, NULL));
	return 0;
}

static int run_abstract(int argc, char **argv)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t len;

	if (argc < 1 || strlen(argv[0]) > sizeof(to.sun_path) - 2)
		return 2;
	len = strlen(argv[0]);
	memcpy(to.sun_path + 1, argv[0], len);
	tell("connect_abstract",
	     connect(fd, (struct sockaddr *)&to,
	             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)));
	return 0;
}

static void tty_attempts(const void *arg)
{
	static const struct {
		const char *name;
		unsigned long request;
	} ways[] = {
		{"TIOCSTI", 0x5412UL},   {"TIOCSTI-high", 0x100005412UL},
		{"TIOCLINUX", 0x541cUL}, {"TIOCLINUX-high", 0x10000541cUL},
		{"TIOCCONS", 0x541dUL},  {"FS_IOC_SETFLAGS", 0x40086602UL},
	};
	char typed = 'x';
	int fd = *(const int *)arg;

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		if (ways[i].request != 0x541dUL ||
		    is_inside()) /* would redirect the host's console */
			tell_case("ioctl", ways[i].name,
			          syscall(SYS_ioctl, fd, ways[i].request, &typed));
}

static void exec_unknown_format(const void *arg)
{
	static const char magic[] = "\x7f\x01\x02\x03 no format begins so";
	int fd = (int)syscall(SYS_memfd_create, "probe", 0U);
	char *const none[] = {NULL};

	(void)arg;
	if (write(fd, magic, sizeof(magic)) > 0)
		tell("exec_unknown_format",
		     syscall(SYS_execveat, fd, "", none, none, AT_EMPTY_PATH));
}

/* What makes a kernel look for a module by a name that the caller chose. Outside only with names
 * and numbers that no module has. */
static int run_autoload(int argc, char **argv)
{
	static const struct {
		const char *name;
		int domain, type, protocol;
		bool is_harmless; /* built in, or in no kernel */
	} asked[] = {
		{"SCTP", AF_INET, SOCK_STREAM, 132, false},
		{"SCTP-SEQPACKET", AF_INET, SOCK_SEQPACKET, 132, false},
		{"DCCP", AF_INET, SOCK_DCCP, 33, false},
		{"L2TP", AF_INET, SOCK_DGRAM, 115, false},
		{"SMC6", AF_INET6, SOCK_STREAM, 256, false},
		{"UNASSIGNED", 45, SOCK_STREAM, 0, true},
		{"INET-UNASSIGNED", AF_INET, SOCK_STREAM, 254, true},
		{"UDPLITE", AF_INET, SOCK_DGRAM, 136, true},
		{"MPTCP", AF_INET, SOCK_STREAM, 262, true},
	};
	int discipline = 29, unlock = 0, master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const char *congestion = is_inside() ? "westwood" : "cloche_none";

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		int fd;

		if (!asked[i].is_harmless && !is_inside())
			continue;
		fd = (int)syscall(SYS_socket, asked[i].domain, asked[i].type, asked[i].protocol);
		tell_case("socket", asked[i].name, fd < 0 ? -1 : 0);
		if (fd >= 0)
			(void)close(fd);
	}
	(void)ioctl(master, TIOCSPTLCK, &unlock);
	tell("line_discipline", syscall(SYS_ioctl, master, 0x5423UL /* TIOCSETD */, &discipline));
	tell("congestion",
	     setsockopt(tcp, IPPROTO_TCP, 13, congestion, (socklen_t)strlen(congestion)));
	tell("mount", syscall(SYS_mount, "none", "/tmp", "cloche_none", 0UL, NULL));
	return in_child(exec_unknown_format, NULL);
}

/* On a terminal of its own, so that no one else's input is touched where it works. */
static int run_tty(int argc, char **argv)
{
	int fd, unlock = 0, master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);

	(void)argc;
	(void)argv;
	tell("ptmx", master < 0 ? -1 : 0);
	if (master < 0)
		return 0;
	(void)ioctl(master, TIOCSPTLCK, &unlock);
	fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		tell("pty_peer", -1);
		return 0;
	}
	return in_child(tty_attempts, &fd);
}

static int run_status(int argc, char **argv)
{
	static const char *const wanted[] = {"Uid",    "Gid",    "Groups", "CapInh",     "CapPrm",
	                                     "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"};
	FILE *f = fopen(argc > 0 ? argv[0] : "/proc/self/status", "re");
	char line[512];

	if (!f) {
		tell("status", -1);
		return 0;
	}
	while (fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (!colon)
			continue;
		*colon = '\0';
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
			if (!strcmp(line, wanted[i])) {
				char *text = colon + 1 + strspn(colon + 1, " \t");

				text[strcspn(text, "\n")] = '\0';
				tell_text(line, text);
			}
	}
	(void)fclose(f);
	tell("securebits", prctl(PR_GET_SECUREBITS));
	tell("dumpable", prctl(PR_GET_DUMPABLE));
	return 0;
}

static long lower_autogroup(void)
{
	int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	long ret = fd < 0 ? fd : write(fd, "-5", 2);

	if (fd >= 0)
		(void)close(fd);
	return ret;
}

static int run_sched(int argc, char **argv)
{
	struct sched_param p = {.sched_priority = 10};

	(void)argc;
	(void)argv;
	tell("sched_fifo", syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &p));
	tell("sched_rr", syscall(SYS_sched_setscheduler, 0, SCHED_RR, &p));
	tell("nice_down", syscall(SYS_setpriority, 0, 0, -10));
	tell("autogroup_down", lower_autogroup());
	tell("nice_up", syscall(SYS_setpriority, 0, 0, 5));
	return 0;
}

/* clang-format off */
const struct probe escape_probes[] = {
	{"namespaces", run_namespaces, ""},
	{"mounts",     run_mounts,     "(in a mount namespace of its own, where it may succeed)"},
	{"chroot",     run_chroot,     ""},
	{"ptrace",     run_ptrace,     "[PID] (with PID only inside)"},
	{"pid",        run_pid,        "PID"},
	{"kill-all",   run_kill_all,   "(only inside)"},
	{"keys",       run_keys,       ""},
	{"doors",      run_doors,      ""},
	{"sockets",    run_sockets,    ""},
	{"splice",     run_splice,     ""},
	{"autoload",   run_autoload,   ""},
	{"abstract",   run_abstract,   "NAME"},
	{"tty",        run_tty,        ""},
	{"status",     run_status,     "[/proc/PID/status]"},
	{"sched",      run_sched,      ""},
	{NULL, NULL, NULL},
};
/* clang-format on */
