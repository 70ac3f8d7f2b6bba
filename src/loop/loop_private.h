// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the files of the loop share.
 *
 *	loop.c        sources, shares, deferred calls, and the turn
 *	turn_time.c   how long turns and callbacks take
 *	timers.c      the heap of timers
 *	jobs.c        long work in slices
 *	processes.c   children and signals
 */
#include "base/list.h"
#include "loop/loop.h"

#include <signal.h>

#define SLICE_US 2000 /* of a turn, for jobs */

struct loop_timer {
	struct loop *loop;
	const char *name; /* of fn */
	loop_fn fn;
	void *arg;
	uint64_t at_us;
	size_t place; /* in the heap; SIZE_MAX = not set */
};

struct loop_job {
	struct loop *loop;
	const char *name; /* of fn */
	loop_job_fn fn;
	void *arg;
	struct list link; /* while it is under way */
};

struct deferred {
	loop_fn fn;
	void *arg;
	const char *name;
};

struct signal_watch {
	loop_fn fn;
	void *arg;
};

struct loop {
	int epoll_fd;
	bool is_stopping;
	uint64_t now_us;
	struct loop_stats stats;
	bool tells_long_turns;
	bool runs_timers;
	uint64_t lap_us;      /* steady: the end of the last callback */
	uint64_t lap_cpu_us;  /* as last read within a turn */
	uint64_t turn_cpu_us; /* as last read at the end of one */
	uint64_t unread_us;   /* steady time of turns since then */
	const char *about;    /* of the running callback, or NULL */
	uint64_t worst_us;    /* of this turn's callbacks */
	const char *worst, *worst_about;
	struct list jobs;
	struct loop_job *running; /* NULL: none, or it was freed by its own callback */
	uint64_t slice_end_us;
	struct loop_timer **heap;
	size_t heap_len, heap_size;
	struct deferred *deferred;
	size_t deferred_len, deferred_size;
	struct fair_queue shares; /* in microseconds */
	struct fair_share own;    /* of sources without a share that are called again */
	struct list again;
	int signal_fd;
	struct loop_io *signal_io;
	sigset_t signals;
	struct signal_watch watches[NSIG];
};

/* timers.c, jobs.c: what is due in this turn. */
void timers_run(struct loop *loop);
void jobs_run(struct loop *loop);
/* turn_time.c: a callback of that name has just ended; a turn has. */
void turn_lap(struct loop *loop, const char *name);
void turn_count(struct loop *loop);
