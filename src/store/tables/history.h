// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The rows of history: pieces of readings, runs of sandboxes, and the room that each project's
 * take. Changes are made in batches between begin and end, all of them or none. What src/history
 * does not write is lost to nobody else, so no call here counts as durable.
 */
#include "base/buf.h"
#include "store/store.h"

#define HISTORY_RUNS_ON UINT64_C(0x7fffffffffffffff) /* as ended_us: it has not ended */

struct history_key {
	uint32_t step;
	uint64_t span;
	const char *project_id, *owner_id;
};
struct history_run_row {
	const char *project_id, *sandbox_id, *name, *template; /* name "" = none */
	uint64_t began_us, ended_us;                           /* wall clock */
};
struct history_room_row {
	const char *project_id;
	uint64_t bytes, runs;
};

struct store_history; /* the statements, prepared; to be closed before the store is */
must_check int store_history_open(struct store *st, struct store_history **ret, struct err *err);
void store_history_close(struct store_history *sh); /* NULL is fine */

must_check int store_history_begin(struct store_history *sh, struct err *err);
/* Ends the batch. If r < 0 or the commit fails, nothing of it is written. Returns r, or the
 * commit's error. */
must_check int store_history_end(struct store_history *sh, int r, struct err *err);

must_check int store_history_put(struct store_history *sh, const struct history_key *key,
                                 const void *data, size_t len, struct err *err);
/* 1: its bytes were appended to *ret; 0: there is none. */
must_check int store_history_get(struct store_history *sh, const struct history_key *key,
                                 struct buf *ret, struct err *err);
/* The first span of this step from that one on. 1: *ret is set; 0: there is none. */
must_check int store_history_span(struct store_history *sh, uint32_t step, uint64_t from,
                                  uint64_t *ret, struct err *err);

/* Called for each piece that was removed, with the length of its bytes. */
typedef void (*store_history_fn)(const struct history_key *key, size_t len, void *arg);
/* These remove some pieces of a span and return how many: of all projects, … */
must_check int store_history_remove(struct store_history *sh, uint32_t step, uint64_t span,
                                    store_history_fn fn, void *arg, struct err *err);
/* … or of one project's sandboxes; with_own: and those of the project itself. */
must_check int store_history_remove_of(struct store_history *sh, uint32_t step, uint64_t span,
                                       const char *project_id, bool with_own, store_history_fn fn,
                                       void *arg, struct err *err);

must_check int store_history_put_run(struct store_history *sh, const struct history_run_row *row,
                                     struct err *err);
/* The run of this sandbox that had not ended has ended now. */
must_check int store_history_end_run(struct store_history *sh, const struct history_run_row *row,
                                     struct err *err);
/* fn returning > 0 ends a walk. */
typedef int (*store_history_run_fn)(const struct history_run_row *row, void *arg);
/* Those of a project that ended after a moment, or then and with a later id; in that order. */
must_check int store_history_each_run(struct store_history *sh, const char *project_id,
                                      uint64_t after_us, const char *after_id,
                                      store_history_run_fn fn, void *arg, struct err *err);
/* Removes some of a project's, those that ended first, and returns how many. */
must_check int store_history_drop_runs(struct store_history *sh, const char *project_id,
                                       struct err *err);

/* A row without bytes and runs is removed. */
must_check int store_history_put_room(struct store_history *sh, const struct history_room_row *row,
                                      struct err *err);
must_check int store_history_each_room(struct store_history *sh,
                                       int (*fn)(const struct history_room_row *row, void *arg),
                                       void *arg, struct err *err);
