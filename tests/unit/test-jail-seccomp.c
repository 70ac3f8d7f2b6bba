// SPDX-License-Identifier: Apache-2.0
/* The jail's filter, loaded for real: what is refused, with which errno, and what still works. */
#include "test.h"

#include "base/auto.h"
#include "engine/linux/seccomp.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void load(void)
{
	static struct seccomp_program program;
	struct err err = {0};

	CHECK_INT(seccomp_build(&program, &err), 0);
	CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_INT(seccomp_load_program(&program), 0);
}

/* The call's errno, or 0. */
static int of_call(long nr, long a, long b, long c, long d)
{
	errno = 0;
	return syscall(nr, a, b, c, d, 0, 0) < 0 ? errno : 0;
}

TEST_FORKED(ordinary_work_goes_on, 10)
{
	int fds[2];
	pid_t pid;
	int status;

	load();
	CHECK_INT(pipe(fds), 0);
	pid = fork();
	if (pid == 0)
		_exit(5);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(WEXITSTATUS(status), 5);
	CHECK(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0);
	CHECK(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE) >= 0);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	CHECK_INT(personality(0xffffffff) >= 0, 1);
}

TEST_FORKED(dangerous_calls_are_refused_with_eperm, 10)
{
	static const long calls[] = {
		SYS_mount,
		SYS_umount2,
		SYS_pivot_root,
		SYS_chroot,
		SYS_unshare,
		SYS_setns,
		SYS_ptrace,
		SYS_process_vm_readv,
		SYS_bpf,
		SYS_reboot,
		SYS_kexec_load,
		SYS_init_module,
		SYS_swapon,
		SYS_acct,
		SYS_settimeofday,
		SYS_perf_event_open,
		SYS_fanotify_init,
		SYS_quotactl,
		SYS_syslog,
		SYS_name_to_handle_at,
		SYS_open_by_handle_at,
		SYS_fsopen,
		SYS_move_mount,
		SYS_open_tree,
		SYS_mount_setattr,
		SYS_pidfd_getfd,
		SYS_sethostname,
		SYS_clock_settime,
	};

	load();
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		int errnum = of_call(calls[i], 0, 0, 0, 0);

		if (errnum != EPERM)
			print_error("call %ld\n", calls[i]);
		CHECK_INT(errnum, EPERM);
	}
}

TEST_FORKED(calls_with_a_fallback_seem_absent, 10)
{
	static const long calls[] = {SYS_clone3,      SYS_io_uring_setup, SYS_io_setup,
	                             SYS_userfaultfd, SYS_keyctl,         SYS_add_key,
	                             SYS_request_key, SYS_mbind,          SYS_vmsplice,
	                             446 + 100 /* newer than any list */};

	load();
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		CHECK_INT(of_call(calls[i], 0, 0, 0, 0), ENOSYS);
	CHECK_INT(of_call(SYS_splice, 0, 0, 0, 0), EINVAL);
	CHECK_INT(of_call(SYS_tee, 0, 0, 0, 0), EINVAL);
}

TEST_FORKED(syncing_all_disks_does_nothing, 10)
{
	load();
	CHECK_INT(of_call(SYS_sync, 0, 0, 0, 0), 0);
	CHECK_INT(of_call(SYS_syncfs, -1, 0, 0, 0), 0); /* the kernel would have said EBADF */
	CHECK_INT(of_call(SYS_fsync, -1, 0, 0, 0), EBADF);
}

TEST_FORKED(a_new_namespace_is_refused_whatever_flag_asks, 10)
{
	load();
	for (unsigned bit = 0; bit < 32; bit++)
		if (0x7e020000U & BIT(bit))
			CHECK_INT(of_call(SYS_clone, (long)(BIT(bit) | SIGCHLD), 0, 0, 0), EPERM);
}

TEST_FORKED(odd_sockets_are_refused, 10)
{
	static const int families[] = {AF_PACKET, AF_ALG,  AF_VSOCK, AF_KEY, AF_RXRPC,
	                               AF_XDP,    AF_TIPC, AF_CAN,   AF_SMC, AF_BLUETOOTH};

	load();
	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		CHECK_INT(of_call(SYS_socket, families[i], SOCK_STREAM, 0, 0), EPERM);
	CHECK_INT(of_call(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_ICMP, 0), EPERM);
	CHECK_INT(of_call(SYS_socket, AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP, 0), EPERM);
	CHECK_INT(of_call(SYS_socket, AF_INET, SOCK_STREAM, 256 /* SMC */, 0), EPROTONOSUPPORT);
	CHECK_INT(of_call(SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER, 0), EPERM);
	CHECK_INT(of_call(SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_AUDIT, 0), EPROTONOSUPPORT);
	CHECK_INT(of_call(SYS_socketpair, AF_INET, SOCK_STREAM, 0, 0), EPERM);
}

TEST_FORKED(arguments_are_judged_as_the_kernel_reads_them, 10)
{
	int tcp, udp, option = 1;

	load();
	tcp = socket(AF_INET, SOCK_STREAM, 0);
	udp = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK_INT(of_call(SYS_ioctl, 0, 0x5412, 0, 0), EPERM);
	CHECK_INT(of_call(SYS_ioctl, 0, 0x100005412, 0, 0), EPERM);
	CHECK_INT(of_call(SYS_ioctl, 0, 0x541c, 0, 0), EPERM);
	CHECK_INT(setsockopt(tcp, IPPROTO_TCP, 31, "tls", 3) < 0 ? errno : 0, ENOPROTOOPT);
	CHECK_INT(setsockopt(udp, IPPROTO_UDP, 100, &option, sizeof(option)) < 0 ? errno : 0,
	          ENOPROTOOPT);
	CHECK_INT(setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &option, sizeof(option)), 0);
	CHECK_INT(of_call(SYS_personality, READ_IMPLIES_EXEC, 0, 0, 0), EPERM);
	CHECK_INT(of_call(SYS_mknodat, AT_FDCWD, (long)"/tmp/x", S_IFCHR | 0600, 0x103), EPERM);
}

#if defined(__x86_64__)
TEST_FORKED(the_32_bit_abi_kills, 10)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		long r;

		load();
		__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory"); /* getpid */
		_exit(r > 0 ? 0 : 1);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

TEST_FORKED(the_x32_abi_kills, 10)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		load();
		(void)syscall(0x40000000 | SYS_getpid);
		_exit(0);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}
#endif
