// SPDX-License-Identifier: Apache-2.0
/*
 * While CRIU saves a sandbox, it makes the sandbox's threads run injected code, with changed
 * registers, signal masks and a few words of their program. When a tracer dies, the kernel lets its
 * threads run. If CRIU itself were the tracer and were killed, they would run into a breakpoint or
 * stay in the injected code, and the sandbox would crash.
 *
 * So another process is the tracer. It does for CRIU what only a tracer may do, one call at a time:
 *
 *	CRIU: ptrace(), wait4() --> a byte --> tracer does it --> a byte --> CRIU goes on
 *
 * and saves what CRIU is about to change: registers and signal mask of a thread before the first
 * change, each word before the first poke, the list of descriptors of a process before CRIU makes
 * it open others. When CRIU ends, threads that it has not released are still traced. If there are
 * any, CRIU was killed; the tracer restores and releases them.
 *
 * A thread that has not run since its state was saved gets that state back. A thread that runs is
 * stopped first. If it is then in CRIU's code, it gets its state back as well. If CRIU's code has
 * noticed that CRIU is gone and has returned by itself, the thread is left as it is, with the
 * descriptors that it has opened since.
 *
 * The tracer shares CRIU's memory (CLONE_VM), but not its descriptors or its thread group, so a
 * signal to one does not reach the other. It works only while CRIU waits for it or is dead, so they
 * can share libc's errno. After CRIU's death it must not take a lock that CRIU may have held: no
 * malloc(), no stdio. If the tracer itself is killed, its threads are lost, as they would be
 * without it; the OOM killer spares it.
 */
#include "criu/tracer.h"

#include "criu/traced.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STACK_SIZE (256 * 1024)

/* What CRIU says to it. Each WORD_ASK has one answer. */
enum { WORD_ASK = 'a', WORD_LEAVE = 'l', WORD_OVER = 'o' };

static struct {
	bool is_on;
	pid_t pid, criu;
	int fds[2]; /* CRIU's end, the tracer's end */
	tracer_ptrace_fn ptrace_fn;
	/* The call under way. */
	bool is_wait;
	int request, *status, options;
	pid_t tid;
	void *addr, *data;
	struct rusage *usage;
	long result;
	int error;
	int criu_fd, signal_fd;
} tracer = {.fds = {-1, -1}};

struct traced traced;

struct traced_thread *traced_find(pid_t tid)
{
	for (size_t i = 0; i < traced.n_threads; i++)
		if (traced.threads[i].tid == tid)
			return &traced.threads[i];
	return NULL;
}

char *traced_extra(const struct traced_thread *t)
{
	return traced.extra[t - traced.threads];
}

static void add(pid_t tid)
{
	if (!traced_find(tid) && traced.n_threads < TRACED_THREADS_MAX)
		traced.threads[traced.n_threads++] = (struct traced_thread){.tid = tid};
}

/* Entries do not move: a thread's extended registers are at the same index. */
static void drop(struct traced_thread *t)
{
	t->tid = 0;
	while (traced.n_threads > 0 && traced.threads[traced.n_threads - 1].tid == 0)
		traced.n_threads--;
}

long traced_call(int request, pid_t tid, unsigned long addr, void *data)
{
	return tracer.ptrace_fn(request, tid, (void *)addr, data);
}

bool traced_get_regs(pid_t tid, regs_t *ret)
{
	struct iovec iov = {ret, sizeof(*ret)};

	/* A 32-bit program has other registers, but sandboxes do not run 32-bit programs. */
	return traced_call(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) == 0 &&
	       iov.iov_len == sizeof(*ret);
}

bool traced_set_regs(pid_t tid, regs_t *regs)
{
	struct iovec iov = {regs, sizeof(*regs)};

	return traced_call(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov) == 0;
}

/* Makes the thread repeat a system call that the stop has interrupted, as CRIU does. On arm64 the
 * registers are already set for that. */
void traced_set_restart(regs_t *regs)
{
#if defined(__x86_64__)
	enum {
		RESTARTSYS = -512,
		RESTARTNOINTR = -513,
		RESTARTNOHAND = -514,
		RESTART_BLOCK = -516
	};

	if ((long)regs->orig_rax < 0)
		return;
	switch ((long)regs->rax) {
	case RESTARTSYS:
	case RESTARTNOINTR:
	case RESTARTNOHAND:
		regs->rax = regs->orig_rax;
		regs->rip -= 2 /* of the call itself */;
		break;
	case RESTART_BLOCK: /* the saved restart data belongs to another call by now */
		regs->rax = (unsigned long)-EINTR;
		break;
	}
	regs->orig_rax = (unsigned long)-1;
#else
	(void)regs;
#endif
}

static void save(struct traced_thread *t)
{
	struct iovec extra = {traced_extra(t), TRACED_EXTRA_SIZE};

	if (t->is_saved || !traced_get_regs(t->tid, &t->regs) ||
	    traced_call(PTRACE_GETSIGMASK, t->tid, sizeof(t->mask), &t->mask) != 0)
		return;
	t->extra_len = traced_call(PTRACE_GETREGSET, t->tid, TRACED_EXTRA, &extra) == 0
	                       ? extra.iov_len
	                       : 0;
	traced_set_restart(&t->regs);
	t->is_saved = true;
}

/* Without stdio: "/proc/TID/NAME". */
int traced_open(pid_t tid, const char *name, int flags)
{
	char path[48] = "/proc/", digits[12];
	size_t n = strlen(path), d = 0;

	for (; tid > 0; tid /= 10)
		digits[d++] = (char)('0' + tid % 10);
	while (d > 0)
		path[n++] = digits[--d];
	path[n++] = '/';
	(void)memcpy(path + n, name, strlen(name) + 1); /* one of ours: short */
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

struct entry { /* of getdents64 */
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

/* Calls fn for each open descriptor. */
void traced_each_fd(pid_t tid, void (*fn)(int fd, void *arg), void *arg)
{
	static _Alignas(8) char bytes[32768];
	int dir = traced_open(tid, "fd", O_RDONLY | O_DIRECTORY);
	long n;

	while (dir >= 0 && (n = syscall(SYS_getdents64, dir, bytes, sizeof(bytes))) > 0)
		for (long at = 0; at < n;) {
			const struct entry *e = (const struct entry *)(bytes + at);
			int fd = 0;

			at += e->len;
			if (e->name[0] == '.')
				continue;
			for (const char *p = e->name; *p; p++)
				fd = fd * 10 + (*p - '0');
			fn(fd, arg);
		}
	if (dir >= 0)
		(void)close(dir);
}

static void list_fd(int fd, void *arg)
{
	struct traced_thread *t = arg;

	if (traced.n_fds < TRACED_FDS_MAX) {
		traced.fds_list[traced.n_fds++] = fd;
		t->n_fds++;
	}
}

/* The first thread of a process: CRIU injects its code through it. */
static void note_infection(struct traced_thread *t)
{
	if (t->is_infected)
		return;
	t->is_infected = true;
	t->fds = traced.n_fds;
	traced_each_fd(t->tid, list_fd, t);
}

static void note_poke(struct traced_thread *t, unsigned long addr)
{
	struct traced_poke *p = &traced.pokes[traced.n_pokes];

	for (size_t i = 0; i < traced.n_pokes; i++)
		if (traced.pokes[i].tid == t->tid && traced.pokes[i].addr == addr)
			return;
	if (traced.n_pokes == TRACED_POKES_MAX)
		return;
	errno = 0;
	*p = (struct traced_poke){t->tid, addr, traced_call(PTRACE_PEEKDATA, t->tid, addr, NULL)};
	if (errno == 0)
		traced.n_pokes++;
}

static bool is_resume(int request)
{
	return request == PTRACE_CONT || request == PTRACE_SYSCALL ||
	       request == PTRACE_SINGLESTEP || request == PTRACE_LISTEN;
}

/* Before the call. */
static void note(struct traced_thread *t)
{
	const unsigned long addr = (unsigned long)tracer.addr;

	switch (tracer.request) {
	case PTRACE_POKEDATA:
	case PTRACE_POKETEXT:
		note_infection(t);
		save(t);
		note_poke(t, addr);
		break;
	case PTRACE_SETREGSET:
		save(t);
		if (addr == NT_PRSTATUS) {
			const struct iovec *iov = tracer.data;

			if (iov->iov_len >= sizeof(regs_t))
				t->set_ip = TRACED_IP((const regs_t *)iov->iov_base);
		}
		break;
#if defined(__x86_64__)
	case PTRACE_SETREGS:
		t->set_ip = TRACED_IP((const regs_t *)tracer.data);
		save(t);
		break;
	case PTRACE_SETFPREGS:
#endif
	case PTRACE_SETSIGMASK:
		save(t);
		break;
	}
}

static void do_ptrace(void)
{
	struct traced_thread *t = traced_find(tracer.tid);

	if (t)
		note(t);
	errno = 0;
	tracer.result = tracer.ptrace_fn(tracer.request, tracer.tid, tracer.addr, tracer.data);
	tracer.error = errno;
	if (tracer.result < 0)
		return;
	if (tracer.request == PTRACE_SEIZE || tracer.request == PTRACE_ATTACH)
		add(tracer.tid);
	else if (t && is_resume(tracer.request))
		t->is_still = false;
	else if (t && tracer.request == PTRACE_DETACH)
		drop(t);
}

static void note_end(pid_t tid, int status)
{
	struct traced_thread *t = tid > 0 ? traced_find(tid) : NULL;

	if (!t)
		return;
	t->is_still = WIFSTOPPED(status);
	t->status = status;
	if (!t->is_still)
		drop(t);
}

enum awaited { AWAITED_CHANGE, AWAITED_NOTHING, AWAITED_WORD, AWAITED_END };

/* Waits for what comes first: a change of a thread, or with is_for_criu a message from CRIU or its
 * end. */
static enum awaited await(int ms, bool is_for_criu)
{
	struct pollfd p[] = {{.fd = tracer.signal_fd, .events = POLLIN},
	                     {.fd = is_for_criu ? tracer.criu_fd : -1, .events = POLLIN},
	                     {.fd = is_for_criu ? tracer.fds[1] : -1, .events = POLLIN}};
	struct signalfd_siginfo info;

	if (poll(p, 3, ms) <= 0)
		return AWAITED_NOTHING;
	if (p[1].revents)
		return AWAITED_END;
	if (p[2].revents)
		return AWAITED_WORD;
	while (read(tracer.signal_fd, &info, sizeof(info)) == sizeof(info))
		continue;
	return AWAITED_CHANGE;
}

void traced_await(int ms)
{
	(void)await(ms, /* is_for_criu= */ false);
}

/* The real system call: wait4() here is the one that asks the tracer. */
pid_t traced_wait(pid_t tid, int *status, int options, struct rusage *usage)
{
	return (pid_t)syscall(SYS_wait4, tid, status, options | WNOHANG, usage);
}

/* False: CRIU is gone. */
static bool do_wait(void)
{
	int status = 0;
	pid_t r;

	for (;;) {
		enum awaited what;

		errno = 0;
		r = traced_wait(tracer.tid, &status, tracer.options, tracer.usage);
		if (r != 0 || (tracer.options & WNOHANG))
			break;
		what = await(-1, /* is_for_criu= */ true);
		if (what == AWAITED_END)
			return false;
		if (what ==
		    AWAITED_WORD) { /* a signal came for CRIU, which is what it waits with */
			r = -1;
			errno = EINTR;
			break;
		}
	}
	tracer.result = r;
	tracer.error = errno;
	if (tracer.status && r > 0)
		*tracer.status = status;
	note_end(r, status);
	return true;
}

static void defy_oom(void)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj",
	                      O_WRONLY | O_CLOEXEC, 0);

	if (fd >= 0) {
		(void)!write(fd, "-1000", 5);
		(void)close(fd);
	}
}

/* One call, or its end. */
static bool serve(void)
{
	struct pollfd p[] = {{.fd = tracer.fds[1], .events = POLLIN},
	                     {.fd = tracer.criu_fd, .events = POLLIN}};
	char word;

	if (poll(p, 2, -1) < 0)
		return errno == EINTR;
	if (p[1].revents || read(tracer.fds[1], &word, 1) != 1 || word == WORD_OVER)
		return false;
	if (word == WORD_LEAVE) /* the answer was on its way */
		return true;
	if (!tracer.is_wait)
		do_ptrace();
	else if (!do_wait())
		return false;
	return write(tracer.fds[1], &word, 1) == 1;
}

static int run(void *arg)
{
	sigset_t all;

	(void)arg;
	(void)prctl(PR_SET_NAME, "cloche-tracer");
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)close(tracer.fds[0]);
	defy_oom();
	if (write(tracer.fds[1], "", 1) == 1) /* it is there */
		while (serve())
			continue;
	tracer_cure_all();
	(void)syscall(SYS_exit_group, 0);
	return 0;
}

static void say(char word)
{
	(void)send(tracer.fds[0], &word, 1, MSG_NOSIGNAL);
}

/* A signal for CRIU ends a wait, as it would without the tracer. */
static bool ask(void)
{
	char word;
	ssize_t n;

	say(WORD_ASK);
	while ((n = read(tracer.fds[0], &word, 1)) < 0 && errno == EINTR)
		if (tracer.is_wait)
			say(WORD_LEAVE);
	errno = n == 1 ? tracer.error : ESRCH; /* else it was killed */
	return n == 1;
}

/* A child that CRIU has made has its memory or a copy of it. */
static bool is_criu(void)
{
	return tracer.is_on && getpid() == tracer.criu;
}

bool tracer_has(int request, pid_t tid)
{
	return is_criu() &&
	       (request == PTRACE_SEIZE || request == PTRACE_ATTACH || traced_find(tid));
}

bool tracer_waits_for(pid_t tid, int options)
{
	if (!is_criu())
		return false;
	return tid > 0 ? traced_find(tid) != NULL
	               : tid == -1 && (options & __WALL) && traced.n_threads > 0;
}

long tracer_ptrace(int request, pid_t tid, void *addr, void *data)
{
	tracer.is_wait = false;
	tracer.request = request;
	tracer.tid = tid;
	tracer.addr = addr;
	tracer.data = data;
	return ask() ? tracer.result : -1;
}

pid_t tracer_wait4(pid_t tid, int *status, int options, struct rusage *usage)
{
	tracer.is_wait = true;
	tracer.tid = tid;
	tracer.status = status;
	tracer.options = options;
	tracer.usage = usage;
	return ask() ? (pid_t)tracer.result : -1;
}

static void *map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

bool tracer_start(tracer_ptrace_fn ptrace_fn)
{
	char *stack = map(STACK_SIZE);
	sigset_t child;
	char byte;

	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	tracer.criu = getpid();
	tracer.ptrace_fn = ptrace_fn;
	traced.extra = map(sizeof(*traced.extra) * TRACED_THREADS_MAX);
	tracer.criu_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	tracer.signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (!stack || !traced.extra || tracer.criu_fd < 0 || tracer.signal_fd < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, tracer.fds) < 0)
		return false;
	tracer.pid = clone(run, stack + STACK_SIZE, CLONE_VM, NULL);
	(void)close(tracer.fds[1]);
	(void)close(tracer.criu_fd);
	(void)close(tracer.signal_fd);
	tracer.is_on = tracer.pid > 0 && read(tracer.fds[0], &byte, 1) == 1;
	return tracer.is_on;
}

void tracer_stop(void)
{
	if (!is_criu())
		return;
	tracer.is_on = false;
	say(WORD_OVER);
	(void)syscall(SYS_wait4, tracer.pid, NULL, __WALL, NULL);
}
