// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What guests had used when they ended: RUN/finals, a ring of the last FINALS_KEPT. A counter goes
 * with its cgroup, and the gateway that is to record its last figure may be dead at that moment, or
 * die with it in hand. So it is kept here until many others have ended, for as often as it is asked
 * for. A guest that starts under an id that ended before is another run, with counters of its own.
 */
#include "engine/engine.h"

/* Starts and ends: 1 MiB of the run directory, and far more than can come between two starts of
 * ours. */
#define FINALS_KEPT 8192

struct finals {
	int fd;
	uint64_t next_seq;
};

must_check int finals_open(struct finals *f, const char *run_dir, struct err *err);
/* Guests of an earlier broker were found, and each has an entry: without any, the log tells. */
void finals_check(const struct finals *f);
void finals_close(struct finals *f);
void finals_begin(struct finals *f, const char *id); /* a guest starts: nothing before counts */
void finals_put(struct finals *f, const char *id, const struct guest_usage *usage);
/* The most that was put for it since it began, figure by figure; all 0 where nothing is known. */
struct guest_usage finals_find(const struct finals *f, const char *id);
