// SPDX-License-Identifier: Apache-2.0
/*
 * Attempts to use up a resource, each bounded by a number given, so that a run without a wall ends
 * too. R01–R12 and E41 of the abuse catalogue.
 */
#include "probe.h"

#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

#define MIB (1024UL * 1024)

/* Children that wait to be killed; ret: how many there were when fork() said no. */
static int run_forks(int argc, char **argv)
{
	long max = word_number(argc, argv, 0, 64), n = 0;
	pid_t pid = 0;

	(void)setpgid(0, 0);
	for (; n < max; n++) {
		pid = fork();
		if (pid < 0)
			break;
		if (pid == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			(void)pause();
			_exit(0);
		}
	}
	tell("fork", pid < 0 ? -1 : 0);
	tell("forked", n);
	(void)signal(SIGTERM, SIG_IGN);
	(void)kill(0, SIGTERM);
	while (n > 0 && wait(NULL) > 0)
		n--;
	return 0;
}

/* Each child makes the next while its parent waits for it, as after vfork(), but with memory of
 * its own. */
static void __attribute__((noreturn)) vfork_deeper(long left, long depth)
{
	long pid = left > 0 ? syscall(SYS_clone, (unsigned long)(CLONE_VFORK | SIGCHLD), 0, 0, 0, 0)
	                    : 0;

	if (pid == 0 && left > 0)
		vfork_deeper(left - 1, depth + 1);
	if (pid < 0 || left == 0) {
		tell("vfork", pid < 0 ? -1 : 0);
		tell("vforked", depth);
	}
	while (wait(NULL) > 0)
		continue;
	_exit(0);
}

static int __attribute__((noreturn)) run_vforks(int argc, char **argv)
{
	vfork_deeper(word_number(argc, argv, 0, 64), 0);
}

static void *wait_forever(void *arg)
{
	(void)arg;
	(void)pause();
	return NULL;
}

static int run_threads(int argc, char **argv)
{
	long max = word_number(argc, argv, 0, 64), n = 0;
	pthread_attr_t attr;
	pthread_t thread;
	int r = 0;

	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, 64 * 1024);
	for (; n < max && r == 0; n++)
		r = pthread_create(&thread, &attr, wait_forever, NULL);
	errno = r;
	tell("pthread_create", r ? -1 : 0);
	tell("threads", r ? n - 1 : n);
	_exit(0);
}

static void touch(char *data, size_t len)
{
	for (size_t i = 0; i < len; i += 4096)
		((volatile char *)data)[i] = 1;
}

static void eat_anonymous(long mib)
{
	for (long i = 0; i < mib; i++) {
		char *data =
			mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (data == MAP_FAILED) {
			tell("mmap", -1);
			return;
		}
		touch(data, MIB);
	}
}

static void eat_file(int fd, long mib)
{
	static char block[64 * 1024];

	memset(block, 1, sizeof(block));
	for (long i = 0; i < mib * (long)(MIB / sizeof(block)); i++)
		if (write(fd, block, sizeof(block)) < 0) {
			tell("write", -1);
			return;
		}
}

static void eat_pipes(long mib)
{
	static char block[64 * 1024];

	for (long i = 0; i < mib; i++) {
		int p[2];

		if (pipe2(p, O_NONBLOCK | O_CLOEXEC) < 0) {
			tell("pipe2", -1);
			return;
		}
		(void)fcntl(p[1], F_SETPIPE_SZ, MIB);
		while (write(p[1], block, sizeof(block)) > 0)
			continue;
	}
}

static void eat_sockets(long mib)
{
	static char block[64 * 1024];

	for (long i = 0; i < mib * 4; i++) {
		int p[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, p) < 0) {
			tell("socketpair", -1);
			return;
		}
		while (write(p[1], block, sizeof(block)) > 0)
			continue;
	}
}

/* Small objects of the kernel, a thousand of them a MiB asked for. */
static void eat_watches(long mib)
{
	int fd = inotify_init1(IN_CLOEXEC);

	for (long i = 0; i < mib * 1000; i++) {
		char path[64];
		int file;

		(void)snprintf(path, sizeof(path), "/dev/shm/watched-%ld", i);
		file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (file < 0 || inotify_add_watch(fd, path, IN_ALL_EVENTS) < 0) {
			tell(file < 0 ? "open" : "inotify_add_watch", -1);
			return;
		}
		(void)close(file);
	}
}

static void eat_epolls(long mib)
{
	for (long i = 0; i < mib * 1000; i++)
		if (epoll_create1(EPOLL_CLOEXEC) < 0 || inotify_init1(IN_CLOEXEC) < 0) {
			tell("epoll_or_inotify", -1);
			return;
		}
}

/* Names that do not exist are remembered by the kernel, long ones outside of their entry. */
static void eat_names(long mib)
{
	char path[256];
	struct stat st;

	for (long i = 0; i < mib * 2000; i++) {
		(void)snprintf(path, sizeof(path), "/dev/shm/%0200ld", i);
		(void)stat(path, &st);
		(void)snprintf(path, sizeof(path), "/tmp/%0200ld", i);
		(void)stat(path, &st);
	}
}

static void eat_sysv(long mib)
{
	int id = shmget(IPC_PRIVATE, (size_t)mib * MIB, IPC_CREAT | 0600);
	char *data = id < 0 ? (char *)-1 : shmat(id, NULL, 0);

	if (data == (char *)-1) {
		tell("shm", -1);
		return;
	}
	(void)shmctl(id, IPC_RMID, NULL);
	touch(data, (size_t)mib * MIB);
}

/* One page touched in each 2 MiB: the page tables weigh as much as the pages. */
static void eat_page_tables(long mib)
{
	size_t len = 2 * MIB * (size_t)mib * 128;
	char *data = mmap(NULL, len, PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (data == MAP_FAILED) {
		tell("mmap", -1);
		return;
	}
	(void)madvise(data, len, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < len; i += 2 * MIB)
		((volatile char *)data)[i] = 1;
}

static int run_memory(int argc, char **argv)
{
	const char *how = argc > 0 ? argv[0] : "";
	long mib = word_number(argc, argv, 1, 64);

	if (!strcmp(how, "anonymous"))
		eat_anonymous(mib);
	else if (!strcmp(how, "memfd"))
		eat_file((int)syscall(SYS_memfd_create, "probe", 0U), mib);
	else if (!strcmp(how, "shm"))
		eat_file(open("/dev/shm/probe", O_RDWR | O_CREAT | O_CLOEXEC, 0600), mib);
	else if (!strcmp(how, "pipes"))
		eat_pipes(mib);
	else if (!strcmp(how, "sockets"))
		eat_sockets(mib);
	else if (!strcmp(how, "watches"))
		eat_watches(mib);
	else if (!strcmp(how, "epolls"))
		eat_epolls(mib);
	else if (!strcmp(how, "names"))
		eat_names(mib);
	else if (!strcmp(how, "sysv"))
		eat_sysv(mib);
	else if (!strcmp(how, "tables"))
		eat_page_tables(mib);
	else
		return 2;
	tell("ate", mib);
	return 0;
}

static int run_lock(int argc, char **argv)
{
	void *huge;

	(void)argc;
	(void)argv;
	/* Large enough to pass any RLIMIT_MEMLOCK that is set at all. */
	huge = mmap(NULL, 256 * MIB, PROT_READ | PROT_WRITE,
	            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	tell("mlock", syscall(SYS_mlock, huge, 256 * MIB));
	huge = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE,
	            MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	tell("hugetlb", huge == MAP_FAILED ? -1 : 0);
	tell("memfd_secret", syscall(SYS_memfd_secret, 0U) < 0 ? -1 : 0);
	return 0;
}

/* ret of "filled": MiB that went in. */
static int run_fill(int argc, char **argv)
{
	static char block[1024 * 1024];
	long max = word_number(argc, argv, 1, 64), n = 0;
	ssize_t r = 0;
	int fd;

	if (argc < 1)
		return 2;
	fd = open(argv[0], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	memset(block, 'x', sizeof(block));
	for (; n < max; n++) {
		r = write(fd, block, sizeof(block));
		if (r < (ssize_t)sizeof(block))
			break;
	}
	if (r >= 0 && r < (ssize_t)sizeof(block))
		r = write(fd, block, sizeof(block)); /* a short one is followed by the reason */
	if (r >= 0)
		r = fsync(fd);
	tell("write", r < 0 ? -1 : 0);
	tell("filled", n);
	return 0;
}

static int run_inodes(int argc, char **argv)
{
	long max = word_number(argc, argv, 1, 1000), n = 0;
	int fd = 0;

	if (argc < 1)
		return 2;
	for (; n < max; n++) {
		char path[4096];

		(void)snprintf(path, sizeof(path), "%s/%ld", argv[0], n);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			break;
		(void)close(fd);
	}
	tell("create", fd < 0 ? -1 : 0);
	tell("created", n);
	return 0;
}

static int run_open_files(int argc, char **argv)
{
	long max = word_number(argc, argv, 0, 100000), n = 0;
	int fd = 0;

	for (; n < max && fd >= 0; n++)
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	tell("open", fd < 0 ? -1 : 0);
	tell("opened", fd < 0 ? n - 1 : n);
	return 0;
}

/* MIB of a pattern that any reader can check: byte i of the stream is i mod 251. */
static int run_flood(int argc, char **argv)
{
	static unsigned char block[251 * 256];
	uint64_t left = (uint64_t)word_number(argc, argv, 0, 1) * MIB;

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (unsigned char)(i % 251);
	while (left > 0) {
		size_t len = left < sizeof(block) ? (size_t)left : sizeof(block), done = 0;

		while (done < len) {
			ssize_t n = write(STDOUT_FILENO, block + done, len - done);

			if (n < 0)
				return 3;
			done += (size_t)n;
		}
		left -= len;
	}
	return 0;
}

/* Objects of the kernel that no memory limit names: how many there can be. */
static long make_timers(long max)
{
	struct sigevent event = {.sigev_notify = SIGEV_NONE};
	long n = 0;
	timer_t timer;

	while (n < max && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
		n++;
	return n;
}

static long queue_signals(long max)
{
	sigset_t set;
	long n = 0;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGRTMIN);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	while (n < max && sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0)
		n++;
	return n;
}

/* Each holds 10 messages of 8 KiB. */
static long open_queues(long max)
{
	struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 8192};
	char name[32];
	long n = 0;

	for (; n < max; n++) {
		mqd_t queue;

		(void)snprintf(name, sizeof(name), "/probe-%ld", n);
		queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr);
		if (queue < 0)
			break;
		(void)mq_unlink(name);
	}
	return n;
}

static int run_objects(int argc, char **argv)
{
	const char *kind = argc > 0 ? argv[0] : "";
	long max = word_number(argc, argv, 1, 1000), n;

	errno = 0;
	if (strcmp(kind, "timers") == 0)
		n = make_timers(max);
	else if (strcmp(kind, "signals") == 0)
		n = queue_signals(max);
	else
		n = open_queues(max);
	tell(kind, n < max ? -1 : 0);
	tell("made", n);
	return 0;
}

/* Writes and waits for the disk, over and over: plainly, and around the cache where that goes. */
static int run_storm(int argc, char **argv)
{
	static char block[1 << 20] __attribute__((aligned(4096)));
	long rounds = word_number(argc, argv, 1, 100);
	int fd = open(argc > 0 ? argv[0] : "storm", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int direct = open(argc > 0 ? argv[0] : "storm", O_RDWR | O_DIRECT | O_CLOEXEC);

	tell("direct", direct);
	for (long i = 0; i < rounds; i++) {
		off_t at = (off_t)(i % 16) * (off_t)sizeof(block);

		if (pwrite(fd, block, sizeof(block), at) < 0 || fsync(fd) < 0) {
			tell("storm", -1);
			return 0;
		}
		if (direct >= 0)
			(void)!pwrite(direct, block, sizeof(block), at);
		sync();
		(void)syncfs(fd);
	}
	tell("storm", rounds);
	return 0;
}

static int run_spin(int argc, char **argv)
{
	long n = word_number(argc, argv, 0, 1);
	time_t end = time(NULL) + word_number(argc, argv, 1, 1);
	struct rusage usage;

	for (long i = 1; i < n; i++)
		if (fork() == 0)
			break;
	while (time(NULL) < end)
		continue;
	while (wait(NULL) > 0)
		continue;
	if (getrusage(RUSAGE_SELF, &usage) == 0)
		tell("spun_ms", usage.ru_utime.tv_sec * 1000 + usage.ru_utime.tv_usec / 1000);
	return 0;
}

/* Ignores all that can be ignored. */
static int __attribute__((noreturn)) run_stubborn(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	for (int s = 1; s < 32; s++)
		(void)signal(s, SIG_IGN);
	tell("deaf", 0);
	for (;;)
		(void)pause();
}

static int run_zombies(int argc, char **argv)
{
	long max = word_number(argc, argv, 0, 20), n = 0;
	bool is_orphan = argc > 1 && !strcmp(argv[1], "orphans");
	pid_t pid = 0;

	for (; n < max; n++) {
		pid = fork();
		if (pid < 0)
			break;
		if (pid == 0 && is_orphan)
			_exit(fork() < 0 ? 1 : 0); /* leaves its own child to process 1 */
		if (pid == 0)
			_exit(0);
		if (is_orphan)
			(void)waitpid(pid, NULL, 0);
	}
	tell("fork", pid < 0 ? -1 : 0);
	tell("made", n);
	return 0;
}

/* Leaves processes behind that do all they can to outlive whoever ends this exec. */
static int run_outlive(int argc, char **argv)
{
	long n = word_number(argc, argv, 0, 4);

	for (long i = 0; i < n; i++) {
		if (fork() != 0)
			continue;
		(void)setsid();
		if (fork() != 0)
			_exit(0);
		(void)setsid();
		(void)prctl(PR_SET_PDEATHSIG, 0);
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
		for (int s = 1; s < 32; s++)
			(void)signal(s, SIG_IGN);
		if (clearenv() == 0 && argc > 1)
			(void)setenv("PROBE", argv[1], 1);
		/* A new process as often as possible: the killer must not chase one by one. */
		for (;;) {
			struct timespec nap = {.tv_nsec = 20 * 1000 * 1000};
			pid_t pid = fork();

			if (pid > 0)
				_exit(0);
			(void)setsid();
			(void)nanosleep(&nap, NULL);
		}
	}
	tell("left", n);
	return 0;
}

/* clang-format off */
const struct probe load_probes[] = {
	{"forks",      run_forks,      "MAX"},
	{"vforks",     run_vforks,     "MAX"},
	{"threads",    run_threads,    "MAX"},
	{"memory",     run_memory,     "anonymous|memfd|shm|pipes|sockets|watches|epolls|names|sysv|tables MIB"},
	{"lock",       run_lock,       ""},
	{"fill",       run_fill,       "FILE MIB"},
	{"inodes",     run_inodes,     "DIR MAX"},
	{"open-files", run_open_files, "MAX"},
	{"flood",      run_flood,      "MIB"},
	{"objects",    run_objects,    "timers|signals|queues MAX"},
	{"storm",      run_storm,      "FILE ROUNDS"},
	{"spin",       run_spin,       "PROCESSES SECONDS"},
	{"stubborn",   run_stubborn,   ""},
	{"zombies",    run_zombies,    "MAX [orphans]"},
	{"outlive",    run_outlive,    "COUNT [WORD]"},
	{NULL, NULL, NULL},
};
/* clang-format on */
