// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to src/history. */
#include "base/id.h"
#include "base/list.h"
#include "history/history.h"
#include "history/line.h"
#include "store/tables/history.h"

#include <uthash.h>

#define STEP_COUNT    3
#define SPANS_MAX     73
#define WRITE_TURNS   6     /* a line is written each so many readings */
#define ROW_BYTES     100   /* that a piece takes beside its data */
#define LEFT_MAX      16384 /* pieces that wait to be written behind their span */
#define RUNS_WAIT_MAX 10000

struct step {
	uint64_t us;
	size_t spans; /* that are kept */
};
extern const struct step history_steps[STEP_COUNT];

struct series { /* the lines of one owner */
	enum history_scope scope;
	char key[ID_SIZE]; /* of the sandbox or project, or "host" */
	char project_id[ID_SIZE], owner_id[ID_SIZE];
	struct line lines[STEP_COUNT];
	bool has_seen;                                       /* counters, */
	uint64_t seen_cpu_ns, seen_in_bytes, seen_out_bytes; /* as of the last reading */
	uint64_t fed;                                        /* the number of that reading */
	unsigned turn;                                       /* in which it is written */
	bool is_over;                                        /* it gets no more readings */
	struct list due; /* in history->due: to be written now */
	UT_hash_handle hh;
};

struct project {
	char id[ID_SIZE];                          /* "" = the host */
	uint64_t bytes, runs, new_bytes, new_runs; /* new: if the batch is committed */
	uint64_t of[PROJECT_FIGURES];              /* of the reading that is under way */
	struct usage used;                         /* since the last reading */
	struct list changed;                       /* in history->changed */
	UT_hash_handle hh;
};

struct late_piece { /* a piece whose span is over, not yet written */
	char project_id[ID_SIZE], owner_id[ID_SIZE];
	uint32_t step;
	uint64_t span;
	size_t stored;
	struct buf data;
	struct list link;
};

struct run {
	char project_id[ID_SIZE], sandbox_id[ID_SIZE];
	char *name, *template;
	uint64_t began_us, ended_us; /* HISTORY_RUNS_ON */
	bool is_written, is_open;    /* it has a row; it is in history->runs */
	struct list link;            /* in history->runs_due */
	UT_hash_handle hh;
};

struct spans { /* of a step, in the order in which they were begun */
	uint64_t known[SPANS_MAX + 1];
	size_t n;
};

struct span_removal {
	uint32_t step;
	uint64_t span;
	struct list link;
};

struct history {
	struct history_config config;
	struct history_sources sources;
	struct store_history *store;
	struct loop_timer *timer;
	struct loop_job *job;
	uint64_t started_us, taken_us; /* steady */
	uint64_t alive_us;             /* wall: when an earlier daemon last took a reading */
	uint64_t number;               /* of readings */
	uint64_t wall_us;              /* of the last */
	struct spans spans[STEP_COUNT];
	bool is_fresh[STEP_COUNT]; /* the last reading began a span: the store has nothing of it */
	struct list retired;
	struct series *series;
	struct project *projects;
	uint64_t bytes, n_runs; /* of all projects */
	struct run *runs;       /* that have not ended */
	struct list due, left, runs_due, changed;
	struct list wrote, wrote_left, wrote_runs; /* in the batch that is open */
	size_t n_left, n_runs_due;
	bool has_failed; /* and has said so */
};

uint64_t history_now_us(const struct history *h);
struct project *history_project(struct history *h, const char *id);
struct series *history_find_series(const struct history *h, const char *key);
void series_free(struct history *h, struct series *s);
void late_piece_free(struct history *h, struct late_piece *l);

/* runs.c */
must_check int runs_load(struct history *h, struct err *err);
must_check int runs_write_some(struct history *h, struct err *err); /* 1: one was; 0: none waits */
void runs_settle(struct history *h, bool is_written);
void runs_free(struct history *h);

/* history_write.c */
bool history_write_some(struct loop *loop, void *arg);
void project_change(struct history *h, struct project *p, int64_t bytes, int64_t runs);
