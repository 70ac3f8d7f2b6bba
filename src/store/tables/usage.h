// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The rows of metering and of quotas. Figures are whole numbers that only grow. Rows are written in
 * batches between begin and commit, all of them or none. A commit with a sync returns when the
 * batch and everything before it are on disk.
 */
#include "store/store.h"

enum usage_figure {
	USAGE_RUNNING_MS,
	USAGE_CPU_NS,             /* that its programs were running on a CPU */
	USAGE_MEMORY_MIB_MS,      /* its limit times the time */
	USAGE_MEMORY_USED_MIB_MS, /* what it used of it */
	USAGE_DISK_MIB_MS,        /* what its files took */
	USAGE_NETWORK_IN_BYTES,
	USAGE_NETWORK_OUT_BYTES,
	USAGE_EXECS,
	USAGE_CALLS, /* of code */
	USAGE_CREATES,
	USAGE_FIGURE_COUNT
};
const char *usage_figure_name(
	enum usage_figure figure); /* "running_ms": its column and JSON name */

struct usage {
	uint64_t of[USAGE_FIGURE_COUNT];
};

struct usage_row {
	const char *project_id, *sandbox_id, *key_id; /* "" = not told */
	int32_t day;
	struct usage usage;
};

struct meter_row {
	const char *sandbox_id, *project_id, *key_id, *boot_id;
	uint64_t charged_to_us; /* steady clock of that boot */
	bool is_held;
	uint64_t memory_limit_bytes;
	uint64_t counted_cpu_ns; /* the part of the cgroup's counter that is in the figures */
	uint64_t memory_bytes, disk_bytes;
	struct usage total;
};

struct store_usage; /* the statements, prepared; to be closed before the store is */
must_check int store_usage_open(struct store *st, struct store_usage **ret, struct err *err);
void store_usage_close(struct store_usage *su); /* NULL is fine */

must_check int store_usage_begin(struct store_usage *su, bool is_synced, struct err *err);
/* Ends the batch. If r < 0 or the commit fails, nothing of it is written. Returns r, or the
 * commit's error. */
must_check int store_usage_end(struct store_usage *su, int r, struct err *err);
/* Adds to the day of the sandbox, and of its project and key. */
must_check int store_usage_add(struct store_usage *su, const struct usage_row *row,
                               struct err *err);
must_check int store_usage_put_meter(struct store_usage *su, const struct meter_row *row,
                                     struct err *err);
must_check int store_usage_delete_meter(struct store_usage *su, const char *sandbox_id,
                                        struct err *err);

/* fn returning < 0 ends a walk and is the result, > 0 ends it with success. */
must_check int store_usage_each_meter(struct store_usage *su,
                                      int (*fn)(const struct meter_row *row, void *arg), void *arg,
                                      struct err *err);
typedef int (*store_usage_fn)(const struct usage_row *row, void *arg);
/* Days of projects and keys from one day to another, both included; by project, day and key.
 * project_id NULL = all. */
must_check int store_usage_each_day(struct store_usage *su, const char *project_id, int32_t from,
                                    int32_t to, store_usage_fn fn, void *arg, struct err *err);
/* Every day of a project's sandboxes after an id ("" = from the first), by id and day. */
must_check int store_usage_each_sandbox(struct store_usage *su, const char *project_id,
                                        const char *after_id, store_usage_fn fn, void *arg,
                                        struct err *err);
/* Every day of one sandbox. */
must_check int store_usage_of_sandbox(struct store_usage *su, const char *project_id,
                                      const char *sandbox_id, store_usage_fn fn, void *arg,
                                      struct err *err);
/* Removes some of the sandboxes' days before this one; projects keep theirs. */
must_check int store_usage_prune(struct store_usage *su, int32_t before, struct err *err);

/* json NULL removes the owner's quota. */
must_check int store_usage_put_quota(struct store_usage *su, const char *owner_id, const char *json,
                                     struct err *err);
must_check int store_usage_each_quota(struct store_usage *su,
                                      int (*fn)(const char *owner_id, const char *json, void *arg),
                                      void *arg, struct err *err);
