// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the host, each project and each sandbox used in the past, and which sandboxes ran when.
 *
 *	step	kept for	span (60 readings)	spans
 *	10 s	an hour		10 minutes		7
 *	1 min	a day		an hour			25
 *	10 min	a month		10 hours		73
 *
 * Every period a reading is taken of everybody, and goes into the line of each step (line.h). A
 * line is written once a minute, a sixth of all each time, from a job that shares the loop's time
 * with others. So a killed daemon loses a minute at most, and nobody waits for history.
 *
 * Time is what the wall clock says at the reading. A place without a reading is a gap: the daemon
 * was down, or the clock was set forward. Where the clock is set back, what was written of the time
 * that comes again is replaced as it comes, and not shown before. A span is removed when as many
 * newer ones were begun as are kept, not by its age: a clock that is years off for a moment removes
 * nothing.
 *
 * Bounds: all pieces of sandboxes together have `bytes_max`, and all runs `runs_max`. Past that the
 * project that has most loses its oldest. A project's own pieces, 105 of at most a few KiB, always
 * stay, so it sees its month however many sandboxes it had. A project that does nothing has no
 * readings; where the host has one, its figures were 0.
 *
 * History gives way: while the disk has no room, or a write fails, what could not be written is let
 * go. All calls are on the loop's thread.
 */
#include "history/figure.h"
#include "loop/loop.h"
#include "store/store.h"
#include "store/tables/usage.h"

struct history;

struct history_config {
	struct loop *loop;
	struct store *store;
	uint64_t bytes_max, runs_max;
	uint64_t period_us;          /* between two readings; 10 s at most are used */
	uint64_t (*wall_us)(void);   /* NULL: the wall clock */
	uint64_t (*steady_us)(void); /* NULL: the steady clock */
};

struct history_sources {
	void (*feed)(void *arg); /* calls history_feed() for each sandbox that runs */
	/* The host's own figures, from HOST_CPU on; elapsed_us since the last call. False: they are
	 * not known yet, and no reading is taken. */
	bool (*host)(uint64_t elapsed_us, uint64_t of[HISTORY_FIGURES_MAX], void *arg);
	bool (*has_room)(void *arg); /* on the disk */
	void *arg;
};

must_check int history_open(const struct history_config *config, struct history **ret,
                            struct err *err);
void history_start(struct history *h, const struct history_sources *sources);
/* Its sources are about to go: no more readings are taken. Writes what it can. */
void history_stop(struct history *h);
void history_close(struct history *h); /* likewise; both take NULL */

struct history_feed {
	const char *project_id, *sandbox_id;
	bool is_new; /* it began since the last reading: all that it used is of now */
	uint64_t cpu_ns, network_in_bytes, network_out_bytes; /* since it began */
	uint64_t memory_bytes, disk_bytes;                    /* now */
};
void history_feed(struct history *h, const struct history_feed *feed);
void history_on_use(struct history *h, const char *project_id, const struct usage *more);
void history_forget_project(struct history *h, const char *project_id); /* it was removed */

/* What the timer and the job do, at once. */
void history_take_reading(struct history *h);
must_check int history_write(struct history *h, struct err *err);

struct history_range {
	const char *name; /* "1h" */
	uint64_t step_us;
	size_t n; /* readings */
	unsigned step;
};
const struct history_range *history_find_range(const char *name); /* or NULL */

struct history_view {
	uint64_t from_us, step_us; /* of the first reading, and between two */
	size_t n, n_figures;
	bool *is_known;   /* n; false: a gap */
	uint64_t *values; /* n rows of n_figures */
};
/* sandbox_id NULL: the project's. project_id NULL: the host's. Owners that nothing is known of have
 * gaps alone. */
must_check int history_view(struct history *h, const char *project_id, const char *sandbox_id,
                            const struct history_range *range, struct history_view *ret,
                            struct err *err);
void history_view_done(struct history_view *view);
/* Whether anything is kept of a sandbox: 1 or 0. */
must_check int history_has(struct history *h, const char *project_id, const char *sandbox_id,
                           struct err *err);

struct history_run {
	const char *project_id, *sandbox_id, *name, *template;
	uint64_t began_us, ended_us; /* 0: it runs */
	bool has_figures;            /* of the moment that was asked for */
	uint64_t cpu_milli, memory_bytes;
};
void history_run_began(struct history *h, const struct history_run *run); /* again is fine */
void history_run_ended(struct history *h, const char *sandbox_id, uint64_t at_us);
/* Runs that an earlier daemon did not end; fn may end them. at_us: when it was last alive. */
void history_each_open(struct history *h,
                       void (*fn)(const char *sandbox_id, uint64_t at_us, void *arg), void *arg);

struct history_moment {
	const char *project_id;
	uint64_t at_us;
	uint64_t after_us; /* a page begins behind the run that ended then, … */
	char after_id[40]; /* … with this id; "" = the first */
	size_t limit;
};
/* Calls fn for each sandbox that ran at the moment, by when it ended. Returns 1 if a page follows,
 * which begins where *moment says now. */
must_check int history_running(struct history *h, struct history_moment *moment,
                               void (*fn)(const struct history_run *run, void *arg), void *arg,
                               struct err *err);
uint64_t history_bytes(const struct history *h); /* that all pieces take */
