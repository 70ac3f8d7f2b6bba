// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A process that traces the sandbox in CRIU's place (tracer.c says why). CRIU's calls of ptrace()
 * and wait4() are handed to it; it shares CRIU's memory, so their arguments are good there, too.
 */
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#pragma GCC visibility push(hidden)

typedef long (*tracer_ptrace_fn)(int request, ...);

/* Of a dump. False: there is none, and CRIU traces by itself. */
bool tracer_start(tracer_ptrace_fn ptrace_fn);
void tracer_stop(void); /* CRIU comes to its end by itself; waits for its end */
/* Whether that call is the tracer's, of a thread that it has or is to have. */
bool tracer_has(int request, pid_t tid);
bool tracer_waits_for(pid_t tid, int options);
/* As of libc, with errno. */
long tracer_ptrace(int request, pid_t tid, void *addr, void *data);
pid_t tracer_wait4(pid_t tid, int *status, int options, struct rusage *usage);

#pragma GCC visibility pop
