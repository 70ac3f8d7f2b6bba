// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Measures what sandboxes use. Each has a meter from its first moment to its last:
 *
 *	start --> read, count … --> close          hold: only its files are left, for now
 *
 * A reading is the cgroup's counters at one moment. The increase since the last reading is added to
 * the day's figures of the sandbox, its key and its project, and the meter stores the counters, all
 * in one transaction. So a gateway that is killed and restarted adds each difference once. All of
 * this is on the loop's thread. Time is of the steady clock, so setting the date charges nobody.
 */
#include "engine/engine.h"
#include "store/tables/usage.h"

struct meters; /* of all sandboxes */
struct meter;

/* Called when something was used; quotas listen to it. */
typedef void (*meters_fn)(const char *project_id, const char *key_id, const struct usage *more,
                          void *arg);

/* Loads every meter that was not closed. used may be NULL. */
must_check int meters_open(struct store *store, const char *boot_id, struct meters **ret,
                           struct err *err);
void meters_close(struct meters *ms); /* writes what it can; NULL is fine */
void meters_on_use(struct meters *ms, meters_fn used, void *arg);
/* Writes what was read and counted. With is_synced it returns when that and everything written
 * before is on disk. No figure is shown to anybody without this. */
must_check int meters_write(struct meters *ms, bool is_synced, struct err *err);
struct store_usage *meters_store(struct meters *ms); /* to read, after meters_write() */

struct meter_spec {
	const char *sandbox_id, *project_id, *key_id; /* key "" = none; copied */
	uint64_t memory_limit_bytes;
	uint64_t since_us;       /* steady: when it got its owner */
	struct guest_usage base; /* counters that are not this owner's: of the time before */
};
struct meter *meter_start(struct meters *ms, const struct meter_spec *spec); /* a create */
/* A meter for something that never runs: only its disk is charged, from now on. */
struct meter *meter_store(struct meters *ms, const struct meter_spec *spec, uint64_t disk_bytes);
void meter_set_disk(struct meter *m, uint64_t bytes); /* for a held meter, from now on */
struct meter *meter_find(struct meters *ms, const char *sandbox_id); /* borrowed or NULL */
void meter_read(struct meter *m, const struct guest_usage *now);
void meter_set_memory_limit(struct meter *m, uint64_t bytes); /* from now on */
void meter_count_exec(struct meter *m);
void meter_count_calls(struct meter *m, uint64_t n);
void meter_count_network(struct meter *m, uint64_t in_bytes, uint64_t out_bytes);
/* The sandbox has stopped, but its files stay. Its run is closed with its last counters, and from
 * until_us on only its disk is charged. A resume begins the next run, with fresh counters. */
void meter_hold(struct meter *m, const struct guest_usage *last, uint64_t until_us);
void meter_tick(struct meter *m); /* for a held meter: charges its disk up to now */
void meter_resume(struct meter *m, uint64_t memory_limit_bytes);
/* Ends and frees the meter. last was read when its processes were dead; NULL or 0 if not known.
 * Time is charged up to until_us (steady). */
void meter_close(struct meter *m, const struct guest_usage *last, uint64_t until_us);
void meters_each(struct meters *ms, void (*fn)(struct meter *m, void *arg), void *arg);

const char *meter_sandbox_id(const struct meter *m);
const struct usage *meter_total(const struct meter *m); /* since it was created */
