// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to src/sandbox: the members of a fleet. */
#include "base/list.h"
#include "sandbox/brokerclient/broker_client.h"
#include "sandbox/model/crash_counters.h"
#include "sandbox/model/durable.h"
#include "sandbox/model/fleet_config.h"
#include "sandbox/model/idempotency.h"
#include "sandbox/model/ops.h"
#include "tenant/create_queue.h"

struct adoption;
struct backups;
struct group;
struct images;
struct kept_project;

#define BOOT_ID_SIZE 40

struct fleet {
	struct fleet_config config; /* its strings are not kept, but for those that are borrowed */
	struct broker_client *broker;
	int spool_fd;
	struct crash_counters *crash_counters;
	char boot_id[BOOT_ID_SIZE]; /* of the running kernel: tells a restart of the machine */
	struct msg_reply probe;
	struct host_disk disk;
	const struct lifecycle_ops *lifecycle; /* ops.h */
	const struct spare_ops *spares;
	const struct stored_kind *stored;
	void (*on_rejoined)(struct sandbox *s); /* it is up, or given up */
	bool is_ready, is_draining;
	struct sandbox *by_id, *by_name;
	struct group *groups;                      /* by project and name */
	size_t n_group_dials;                      /* under way */
	struct list templates;                     /* in order of creation */
	struct shared_templates *shared_templates; /* of all nodes; NULL: this one is alone */
	struct images *images;
	struct list snapshots;         /* in order of creation */
	struct list snapshot_removals; /* of removed ones that the cluster is not told of yet */
	void (*snapshots_changed)(void *arg); /* or NULL */
	void *snapshots_changed_arg;
	uint64_t n_snapshot_files; /* ever opened at the broker */
	struct list volumes;       /* likewise */
	struct list takings;       /* snapshots on their way */
	size_t n_imprints;         /* that are kept for the next fork */
	struct list holds;         /* snapshots that are looked at (snapshot_hold.c) */
	struct loop_timer *snapshot_expiry;
	uint64_t warm_not_before_us; /* steady; after a seed that failed */
	struct list all;             /* in order of creation */
	struct list ended;           /* in order of their end */
	struct list untold;          /* sandboxes whose owner the broker does not know yet */
	struct loop_timer *soon;     /* it is told */
	size_t n_alive, n_ended;
	uint64_t ended_bytes; /* of their kept output */
	struct loop_timer *forget;
	struct loop_job *forgetting;        /* removes those that are too many or too old */
	struct kept_project *kept_projects; /* kept_output.c, by id */
	uint64_t kept_bytes;                /* of output, of all projects */
	struct idempotency *idempotency;
	struct durable *durable;
	size_t n_creating;            /* for a caller who waits */
	struct create_queue *creates; /* that wait for room */
	struct pool *pool;
	struct fleet_counts counts;
	struct loop_stats broker_turns; /* as last asked */
	size_t n_persistent;            /* of those that are alive or kept */
	loop_fn drained;
	void *drained_arg;
	size_t n_draining;
	size_t message_bytes;    /* of interpreters, on their way in */
	struct loop_timer *look; /* account.c: looks which are due for a reading */
	uint64_t synced_us;      /* when usage last was */
	size_t n_meters;         /* ever started */
	/* Brings generations (lifecycle/restorable.h); NULL: nobody does. */
	int (*bring)(const char *project_id, const char *snapshot_id, const char *source_id,
	             void (*fn)(const struct err *err, void *arg), void *fn_arg, void *arg,
	             struct err *err);
	void *bring_arg;
	struct backups *backups;   /* or NULL: none are made */
	struct adoption *adoption; /* while it starts */
};
