// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A process that traces the sandbox in CRIU's place (tracer.c says why). It makes CRIU's calls of
 * ptrace() and wait4(). It shares CRIU's memory, so their arguments are valid there too.
 */
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#pragma GCC visibility push(hidden)

typedef long (*tracer_ptrace_fn)(int request, ...);

/* For a dump. False if there is no tracer, and CRIU traces by itself. */
bool tracer_start(tracer_ptrace_fn ptrace_fn);
void tracer_stop(void); /* CRIU comes to its end by itself; waits for its end */
/* Whether the tracer must make this call: for a thread that it traces or is about to trace. */
bool tracer_has(int request, pid_t tid);
bool tracer_waits_for(pid_t tid, int options);
/* As of libc, with errno. */
long tracer_ptrace(int request, pid_t tid, void *addr, void *data);
pid_t tracer_wait4(pid_t tid, int *status, int options, struct rusage *usage);

#pragma GCC visibility pop
