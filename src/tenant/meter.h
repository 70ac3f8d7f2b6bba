// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What sandboxes use. Each has a meter from its first moment to its last:
 *
 *	start --> read, count … --> close          hold: only its files are left, for now
 *
 * A reading is the cgroup's counters at some moment. What came to them since the one before is
 *added to the sandbox's, its key's and its project's figures of that day, and the meter remembers
 *the counters, all in one transaction: a gateway that is killed and comes back adds the difference,
 * once. All on the loop's thread; time is the steady clock's, so that setting the clock charges
 * nobody.
 */
#include "engine/engine.h"
#include "store/tables/usage.h"

struct meters; /* of all sandboxes */
struct meter;

/* Something was used: quotas look at it. */
typedef void (*meters_fn)(const char *project_id, const char *key_id, const struct usage *more,
                          void *arg);

/* Takes up every meter that was not closed. used may be NULL. */
must_check int meters_open(struct store *store, const char *boot_id, struct meters **ret,
                           struct err *err);
void meters_close(struct meters *ms); /* writes what it can; NULL is fine */
void meters_on_use(struct meters *ms, meters_fn used, void *arg);
/* Writes what was read and counted. With is_synced it returns when that is on the disk, with all
 * that was written before: no figure is told to anyone without this. */
must_check int meters_write(struct meters *ms, bool is_synced, struct err *err);
struct store_usage *meters_store(struct meters *ms); /* to read, after meters_write() */

struct meter_spec {
	const char *sandbox_id, *project_id, *key_id; /* key "" = none; copied */
	uint64_t memory_limit_bytes;
	uint64_t since_us;       /* steady: when it began to be somebody's */
	struct guest_usage base; /* counters that are not this owner's: of the time before */
};
struct meter *meter_start(struct meters *ms, const struct meter_spec *spec); /* a create */
/* Of what never runs: its disk alone is charged, from now on. */
struct meter *meter_store(struct meters *ms, const struct meter_spec *spec, uint64_t disk_bytes);
void meter_set_disk(struct meter *m, uint64_t bytes); /* of one that is held, from now on */
struct meter *meter_find(struct meters *ms, const char *sandbox_id); /* borrowed or NULL */
void meter_read(struct meter *m, const struct guest_usage *now);
void meter_set_memory_limit(struct meter *m, uint64_t bytes); /* from now on */
void meter_count_exec(struct meter *m);
void meter_count_calls(struct meter *m, uint64_t n);
void meter_count_network(struct meter *m, uint64_t in_bytes, uint64_t out_bytes);
/* It stopped, its files stay: its run is closed with its last counters, and from until_us on only
 * its disk is charged; a resume() begins the next run, on fresh counters. */
void meter_hold(struct meter *m, const struct guest_usage *last, uint64_t until_us);
void meter_tick(struct meter *m); /* of one that is held: charges its disk up to now */
void meter_resume(struct meter *m, uint64_t memory_limit_bytes);
/* The end, once: m is gone. last is of when its processes were dead; NULL or 0: not known. Time is
 * charged up to until_us (steady). */
void meter_close(struct meter *m, const struct guest_usage *last, uint64_t until_us);
void meters_each(struct meters *ms, void (*fn)(struct meter *m, void *arg), void *arg);

const char *meter_sandbox_id(const struct meter *m);
const struct usage *meter_total(const struct meter *m); /* since it was created */
