// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What guests had used when they ended: RUN/finals, a ring of the last FINALS_KEPT. A counter
 * vanishes with its cgroup, and the gateway that should record its last value may be dead at that
 * moment, or die before it has written it. So it is kept here, to be asked for any number of times,
 * until many other guests have ended. A guest that starts again under an old id is a new run, with
 * new counters.
 */
#include "engine/engine.h"

/* Counts starts and ends. It takes 1 MiB of the run directory, and holds far more than can happen
 * between two starts of a broker. */
#define FINALS_KEPT 8192

struct finals {
	int fd;
	uint64_t next_seq;
	bool was_empty; /* when it was opened */
};

must_check int finals_open(struct finals *f, const char *run_dir, struct err *err);
/* Called when guests of an earlier broker were found. Each has an entry, so it logs if there are
 * none. */
void finals_check(const struct finals *f);
void finals_close(struct finals *f);
void finals_begin(struct finals *f, const char *id); /* a guest starts: nothing before counts */
void finals_put(struct finals *f, const char *id, const struct guest_usage *usage);
/* Of two readings of one run the larger figures are the true ones: the later may come when half of
 * its cgroups are removed. */
void finals_merge(struct guest_usage *u, const struct guest_usage *other);
/* The most that was put for it since it began, figure by figure; all 0 where nothing is known. */
struct guest_usage finals_find(const struct finals *f, const char *id);
