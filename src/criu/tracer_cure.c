// SPDX-License-Identifier: Apache-2.0
/*
 * Restores the threads of a CRIU that was killed. All are stopped. Words of their program that CRIU
 * has changed are put back. Threads in CRIU's code get their registers back. The process itself
 * unmaps and closes what CRIU has mapped and opened in it. Then all go on.
 *
 * Nothing here takes a lock that CRIU may have held: no malloc(), no stdio.
 */
#include "criu/traced.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEPS_MAX     4
#define CURE_MS       10000 /* for threads to stop; they may wait for a disk */
#define OWN_MAPPING   "/memfd:CRIUMFD"
#define EVENT(status) ((unsigned)(status) >> 16)

/* The system call instruction. */
#if defined(__x86_64__)
static const unsigned char call_code[] = {0x0f, 0x05};
#define CALL_STEP 1
#else
static const unsigned char call_code[] = {0x01, 0x00, 0x00, 0xd4};
#define CALL_STEP 4
#endif

static uint64_t now_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Stops all threads. */
static void stop_all(void)
{
	const uint64_t until = now_ms() + CURE_MS;
	bool is_missing = true;

	for (size_t i = 0; i < traced.n_threads; i++)
		if (traced.threads[i].tid && !traced.threads[i].is_still)
			(void)traced_call(PTRACE_INTERRUPT, traced.threads[i].tid, 0, NULL);
	while (is_missing && now_ms() < until) {
		is_missing = false;
		for (size_t i = 0; i < traced.n_threads; i++) {
			struct traced_thread *t = &traced.threads[i];
			int status;
			pid_t r;

			if (!t->tid || t->is_still)
				continue;
			r = traced_wait(t->tid, &status, __WALL, NULL);
			if (r == t->tid)
				t->status = status;
			if (r < 0 || (r > 0 && !WIFSTOPPED(status)))
				t->tid = 0;
			else if (r > 0)
				t->is_still = true;
			else
				is_missing = true;
		}
		if (is_missing)
			traced_await(20);
	}
}

struct range {
	unsigned long from, to;
};

static unsigned long read_hex(const char **p)
{
	unsigned long v = 0;

	for (;; (*p)++) {
		const char c = **p;

		if (c >= '0' && c <= '9')
			v = v << 4 | (unsigned long)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (unsigned long)(c - 'a' + 10);
		else
			return v;
	}
}

/* The first mapping that has the address (0: any) and the text in its line. */
static bool find_mapping(pid_t tid, unsigned long addr, const char *text, struct range *ret)
{
	static char line[8192];
	size_t len = 0;
	int fd = traced_open(tid, "maps", O_RDONLY);
	bool is_found = false;
	ssize_t n;

	while (fd >= 0 && !is_found && (n = read(fd, line + len, sizeof(line) - 1 - len)) > 0) {
		char *start = line, *end;

		len += (size_t)n;
		line[len] = '\0';
		while (!is_found && (end = strchr(start, '\n'))) {
			const char *p = start;

			*end = '\0';
			ret->from = read_hex(&p);
			p++;
			ret->to = read_hex(&p);
			is_found = (!addr || (addr >= ret->from && addr < ret->to)) &&
			           strstr(p, text) != NULL;
			start = end + 1;
		}
		len -= (size_t)(start - line);
		(void)memmove(line, start, len);
		if (len == sizeof(line) - 1)
			len = 0; /* a line without an end: none of the kernel's */
	}
	if (fd >= 0)
		(void)close(fd);
	return is_found;
}

/* A system call instruction in the vDSO, which every process has. */
static unsigned long find_call(pid_t tid)
{
	static unsigned char bytes[65536];
	struct range vdso;
	unsigned long found = 0;
	ssize_t n = 0;
	int fd;

	if (!find_mapping(tid, 0, "[vdso]", &vdso))
		return 0;
	fd = traced_open(tid, "mem", O_RDONLY);
	if (fd >= 0)
		n = pread(fd, bytes,
		          vdso.to - vdso.from < sizeof(bytes) ? vdso.to - vdso.from : sizeof(bytes),
		          (off_t)vdso.from);
	for (ssize_t i = 0; !found && i + (ssize_t)sizeof(call_code) <= n; i += CALL_STEP)
		if (memcmp(bytes + i, call_code, sizeof(call_code)) == 0)
			found = vdso.from + (unsigned long)i;
	if (fd >= 0)
		(void)close(fd);
	return found;
}

/* False if it is gone or does not stop again. */
static bool step(struct traced_thread *t)
{
	const uint64_t until = now_ms() + CURE_MS;
	int status;
	pid_t r;

	if (traced_call(PTRACE_SINGLESTEP, t->tid, 0, NULL) != 0)
		return false;
	while ((r = traced_wait(t->tid, &status, __WALL, NULL)) == 0 && now_ms() < until)
		traced_await(20);
	if (r > 0 && !WIFSTOPPED(status))
		t->tid = 0;
	return r > 0 && t->tid;
}

/* Makes a stopped thread do a system call. The caller restores its registers. */
static void call_kernel(struct traced_thread *t, const regs_t *own, unsigned long at, long number,
                        unsigned long a, unsigned long b)
{
	uint64_t all = UINT64_MAX;
	regs_t regs = *own;

#if defined(__x86_64__)
	regs.rip = at;
	regs.rax = (unsigned long)number;
	regs.orig_rax = (unsigned long)-1;
	regs.rdi = a;
	regs.rsi = b;
#else
	regs.pc = at;
	regs.regs[8] = (unsigned long)number;
	regs.regs[0] = a;
	regs.regs[1] = b;
#endif
	if (traced_call(PTRACE_SETSIGMASK, t->tid, sizeof(all), &all) != 0 ||
	    !traced_set_regs(t->tid, &regs))
		return;
	for (int i = 0; i < STEPS_MAX && step(t); i++)
		if (traced_get_regs(t->tid, &regs) && TRACED_IP(&regs) != at)
			break; /* else a stop that was asked for before came first */
}

struct closing {
	struct traced_thread *t;
	const regs_t *own;
	unsigned long at;
};

static void close_new(int fd, void *arg)
{
	const struct closing *c = arg;

	for (size_t i = 0; i < c->t->n_fds; i++)
		if (traced.fds_list[c->t->fds + i] == fd)
			return;
	if (c->t->tid)
		call_kernel(c->t, c->own, c->at, SYS_close, (unsigned long)fd, 0);
}

/*
 * Removes what CRIU has mapped and opened in the process. If the process left CRIU's code by
 * itself, that code has closed its own descriptors, and new ones were opened by the program.
 */
static void disinfect(struct traced_thread *t, const regs_t *own)
{
	const unsigned long at = find_call(t->tid);
	struct closing closing = {t, own, at};
	struct range range;

	if (!at)
		return;
	for (int i = 0; t->tid && i < 4 && find_mapping(t->tid, 0, OWN_MAPPING, &range); i++)
		call_kernel(t, own, at, SYS_munmap, range.from, range.to - range.from);
	if (t->tid && t->is_restored && traced.n_fds < TRACED_FDS_MAX)
		traced_each_fd(t->tid, close_new, &closing);
}

/* Whether it is in code that CRIU sent it to. */
static bool is_astray(const struct traced_thread *t, const regs_t *now)
{
	struct range range;

	return find_mapping(t->tid, t->set_ip, "", &range) && TRACED_IP(now) >= range.from &&
	       TRACED_IP(now) <= range.to;
}

/* Restores the saved state if the thread needs it. */
static void restore(struct traced_thread *t, bool was_still)
{
	struct iovec extra = {traced_extra(t), t->extra_len};
	regs_t now;

	if (!t->is_saved || !traced_get_regs(t->tid, &now) || (!was_still && !is_astray(t, &now)))
		return;
	if (t->extra_len > 0)
		(void)traced_call(PTRACE_SETREGSET, t->tid, TRACED_EXTRA, &extra);
	(void)traced_set_regs(t->tid, &t->regs);
	(void)traced_call(PTRACE_SETSIGMASK, t->tid, sizeof(t->mask), &t->mask);
	t->is_restored = true;
}

/* The signal that its stop has held back. A breakpoint is CRIU's. */
static int signal_of(const struct traced_thread *t)
{
	const int sig = EVENT(t->status) == 0 ? WSTOPSIG(t->status) : 0;

	return (sig & 0x7f) == SIGTRAP ? 0 : sig;
}

static void cure(struct traced_thread *t)
{
	uint64_t mask;
	regs_t regs;

	if (!t->is_infected || !traced_get_regs(t->tid, &regs) ||
	    traced_call(PTRACE_GETSIGMASK, t->tid, sizeof(mask), &mask) != 0)
		return;
	traced_set_restart(&regs);
	disinfect(t, &regs);
	if (t->tid) {
		(void)traced_set_regs(t->tid, &regs);
		(void)traced_call(PTRACE_SETSIGMASK, t->tid, sizeof(mask), &mask);
	}
}

void tracer_cure_all(void)
{
	static bool was_still[TRACED_THREADS_MAX];

	for (size_t i = 0; i < traced.n_threads; i++)
		was_still[i] = traced.threads[i].is_still;
	stop_all();
	for (size_t i = 0; i < traced.n_pokes; i++) {
		const struct traced_poke *p = &traced.pokes[i];
		const struct traced_thread *t = traced_find(p->tid);

		errno = 0;
		if (t && t->is_still &&
		    traced_call(PTRACE_PEEKDATA, p->tid, p->addr, NULL) != p->word && errno == 0)
			(void)traced_call(PTRACE_POKEDATA, p->tid, p->addr, (void *)p->word);
	}
	/* Read all registers before the first mapping is removed: they tell which threads are in
	 * it. */
	for (size_t i = 0; i < traced.n_threads; i++) {
		struct traced_thread *t = &traced.threads[i];

		if (!t->tid || !t->is_still)
			continue;
		restore(t, was_still[i]);
		t->signal = t->is_restored ? 0 : signal_of(t);
	}
	for (size_t i = 0; i < traced.n_threads; i++)
		if (traced.threads[i].tid && traced.threads[i].is_still)
			cure(&traced.threads[i]);
	for (size_t i = 0; i < traced.n_threads; i++)
		if (traced.threads[i].tid)
			(void)traced_call(PTRACE_DETACH, traced.threads[i].tid, 0,
			                  (void *)(long)traced.threads[i].signal);
}
