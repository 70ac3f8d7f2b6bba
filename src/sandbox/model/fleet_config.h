// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a fleet is made with, and what it counts. */
#include "broker/msg.h"
#include "event/event.h"
#include "event/metrics.h"
#include "history/history.h"
#include "loop/loop.h"
#include "net/match/range.h"
#include "sandbox/model/sandbox.h"
#include "store/store.h"
#include "tenant/meter.h"
#include "tenant/quota.h"

struct identity;
struct link_timing;
struct node;
struct pool_timing;
struct telemetry;
struct wall_client;
struct work;

struct fleet_config {
	struct loop *loop;
	struct store *store;
	struct event_log *events; /* NULL: nothing is logged */
	struct work *work;        /* for syncs; NULL: replies do not wait for the disk; borrowed */
	/* All kept changes up to that number are on disk (durable.h), or err says why not. */
	void (*on_durable)(uint64_t number, const struct err *err, void *arg);
	void *on_durable_arg;
	uint32_t engines_forbidden;      /* bits of 1 << number */
	uint32_t default_engine;         /* its number; 0: the strongest that runs at full speed */
	int broker_fd;                   /* SOCK_SEQPACKET; the fleet owns it */
	const char *spool_dir;           /* gateway's own, exists */
	const char *default_template;    /* of creates that name none; NULL = host; borrowed */
	const char *own_project_id;      /* of the daemon's own sandboxes; or NULL */
	const char *crash_counters_path; /* a file beside it (crash_counters.h), or NULL */
	uint64_t spool_bytes_max;        /* per exec */
	struct guest_limits default_limits, max_limits;
	uint64_t default_timeout_ms, max_timeout_ms;
	uint64_t vm_boot_ms; /* that the broker gives a vm */
	uint32_t sandboxes_max;
	bool is_sweeping;        /* living sandboxes without a row are to be removed */
	uint32_t persistent_max; /* running or not */
	uint32_t ended_max;      /* ended sandboxes are remembered: this many, this long, */
	uint64_t ended_age_ms, ended_bytes_max; /* and with this much output together */
	uint32_t execs_max;                     /* kept per sandbox */
	/* Output kept of execs: of a sandbox, of a project, of all; 0 = no bound. */
	uint64_t output_sandbox_max, output_project_max, output_host_max;
	/* Results that are kept (lifecycle/results.h): of a sandbox, of a project. */
	uint64_t results_sandbox_max, results_project_max;
	const char *backup_dir;  /* for copies of the database; NULL: no backups */
	const char *boot_id;     /* of the running kernel; NULL: it is read from /proc */
	struct meters *meters;   /* NULL: nothing is metered */
	struct history *history; /* NULL: none is kept */
	struct quota *quota;     /* NULL: there are none */
	/* Whether this node of a cluster makes no new sandboxes; NULL: never. */
	bool (*is_cordoned)(void *arg);
	void *is_cordoned_arg;
	bool has_objects;          /* the cluster keeps objects: sandboxes can outlive this node */
	struct shares *shares;     /* NULL: all is served as it comes */
	struct secrets *secrets;   /* NULL: none are kept */
	struct identity *identity; /* NULL: no tokens are given out */
	struct telemetry *telemetry; /* NULL: nothing is traced */
	struct node *node; /* of a cluster, with which names are agreed on; NULL: there is none */
	struct wall_client *wall;       /* NULL: nothing can be reached from any sandbox */
	struct range_site network_site; /* what the operator closes; borrowed */
	/*
	 * Where this host's templates have packages from: pip, npm or apt (NULL: no words are
	 * known). Adds strings to names and addresses, and to ranges those in which the names may
	 * lie though they are not public. False: it is another word.
	 */
	bool (*package_hosts)(const char *word, json_t *names, json_t *addresses, json_t *ranges,
	                      void *arg);
	void *package_hosts_arg;
	bool has_disk_share;      /* projects have a share of the disk (owner.c) */
	uint64_t usage_period_ms; /* between two readings of a sandbox */
	uint64_t usage_kept_ms;   /* of single sandboxes; that of projects is kept for ever */
	/* Spares (pool.c): at least and at most so many, of at most so much memory; max 0 =
	 * none. */
	uint32_t pool_min, pool_max;
	uint64_t pool_memory_bytes;
	/* And for reservations (pool_reservation.c): beside those at most so many, of at most so
	 * much memory; 0 = a part of the host's. */
	uint32_t pool_reserve_max;
	uint64_t pool_reserve_bytes;
	char **pool_languages; /* NULL-terminated: interpreters that they have running; or NULL */
	const struct pool_timing *pool_timing; /* NULL = the usual (pool.h) */
	/* The broker died: there is nothing left to do but exit and be started anew. NULL: stops
	 * the loop. */
	loop_fn broker_lost;
	void *broker_lost_arg;
	const struct link_timing *timing; /* patience with agents; NULL = the usual (link.h) */
};

/* Figures of all projects together. */
struct fleet_counts { /* since the start */
	uint64_t creates, creates_failed, execs, code_failed;
	uint64_t outputs_dropped; /* of execs that are over, to keep within the bounds */
	uint64_t stray_moves;     /* of sandboxes, that no row of phase.c allows */
	struct histogram create_us, code_us;
};

struct pool_figures {
	size_t ready, target;  /* spares there are, and there should be */
	size_t ready_vms;      /* of those that are ready */
	unsigned failures;     /* of filling it, one after the other */
	uint64_t hits, misses; /* creates that one would fit, with and without one */
};
