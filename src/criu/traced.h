// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the tracer knows about its threads: kept by tracer.c, used by tracer_cure.c. */
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/user.h>

/* Hidden, because CRIU's program has many symbols of its own, which would take precedence. */
#pragma GCC visibility push(hidden)

#define TRACED_THREADS_MAX 8192
#define TRACED_POKES_MAX   4096
#define TRACED_FDS_MAX     65536 /* of all processes together */
#define TRACED_EXTRA_SIZE  (16 * 1024)

#if defined(__x86_64__)
typedef struct user_regs_struct regs_t;
#define TRACED_EXTRA    NT_X86_XSTATE
#define TRACED_IP(regs) ((regs)->rip)
#elif defined(__aarch64__)
typedef struct user_regs_struct regs_t;
#define TRACED_EXTRA    NT_PRFPREG
#define TRACED_IP(regs) ((regs)->pc)
#else
#error "registers of this architecture are not known here"
#endif

struct traced_thread {
	pid_t tid;
	bool is_still;        /* it has stopped, and was not told to go on */
	bool is_saved;        /* before the first change */
	bool is_infected;     /* CRIU has put code into its process: fds are listed */
	bool is_restored;     /* the cure has restored the saved state */
	int status;           /* of the last stop */
	int signal;           /* to go on with */
	unsigned long set_ip; /* where CRIU sent it last */
	regs_t regs;
	uint64_t mask;
	size_t extra_len;
	size_t fds, n_fds; /* in fds_list */
};

struct traced_poke {
	pid_t tid;
	unsigned long addr;
	long word; /* that was there */
};

extern struct traced {
	struct traced_thread threads[TRACED_THREADS_MAX];
	size_t n_threads;
	struct traced_poke pokes[TRACED_POKES_MAX];
	size_t n_pokes;
	int fds_list[TRACED_FDS_MAX];
	size_t n_fds;
	char (*extra)[TRACED_EXTRA_SIZE]; /* extended registers, one of each thread */
} traced;

struct traced_thread *traced_find(pid_t tid);                             /* or NULL */
long traced_call(int request, pid_t tid, unsigned long addr, void *data); /* ptrace() */
bool traced_get_regs(pid_t tid, regs_t *ret);
bool traced_set_regs(pid_t tid, regs_t *regs);
/* Makes the thread repeat a system call that the stop has interrupted, as CRIU does. */
void traced_set_restart(regs_t *regs);
char *traced_extra(const struct traced_thread *t);       /* the place for its extended registers */
int traced_open(pid_t tid, const char *name, int flags); /* of /proc/TID */
void traced_each_fd(pid_t tid, void (*fn)(int fd, void *arg), void *arg);
pid_t traced_wait(pid_t tid, int *status, int options, struct rusage *usage); /* at once */
void traced_await(int ms); /* waits that long for a change of any of them */

/* CRIU is gone: restores and releases the threads that it has not released itself. */
void tracer_cure_all(void);

#pragma GCC visibility pop
