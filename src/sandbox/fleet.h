// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * All sandboxes of this daemon, and the one connection to the broker through which they come to be.
 * Finding always names the project, so there is no way to reach another's sandbox by forgetting a
 * check.
 */
#include "broker/msg.h"
#include "event/event.h"
#include "event/metrics.h"
#include "loop/loop.h"
#include "net/range.h"
#include "sandbox/sandbox.h"
#include "store/store.h"
#include "tenant/meter.h"
#include "tenant/quota.h"

struct link_timing;
struct work;
struct wall_client;
struct pool_timing;

struct fleet_config {
	struct loop *loop;
	struct store *store;
	struct event_log *events; /* NULL: nothing is logged */
	struct work *work;        /* for the disk; NULL: nobody waits for it; borrowed */
	/* All kept changes up to that number are on disk (durable.h), or err says why not. */
	void (*on_durable)(uint64_t number, const struct err *err, void *arg);
	void *on_durable_arg;
	uint32_t engines_forbidden;      /* bits of 1 << enum engine_kind */
	int broker_fd;                   /* SOCK_SEQPACKET; the fleet owns it */
	const char *spool_dir;           /* gateway's own, exists */
	const char *default_template;    /* of creates that name none; NULL = host; borrowed */
	const char *crash_counters_path; /* a file beside it (crash_counters.h), or NULL */
	uint64_t spool_bytes_max;        /* per exec */
	struct guest_limits default_limits, max_limits;
	uint64_t default_timeout_ms, max_timeout_ms;
	uint64_t vm_boot_ms; /* that the broker gives a vm */
	uint32_t sandboxes_max;
	bool is_sweeping;        /* what is alive without a record is meant to go */
	uint32_t persistent_max; /* running or not */
	uint32_t ended_max;      /* what has ended is remembered: so many, so long, */
	uint64_t ended_age_ms, ended_bytes_max; /* and with so much output together */
	uint32_t execs_max;                     /* kept per sandbox */
	/* Output kept of execs: of a sandbox, of a project, of all; 0 = no bound. */
	uint64_t output_sandbox_max, output_project_max, output_host_max;
	const char *backup_dir;         /* for copies of the database; NULL: no backups */
	const char *boot_id;            /* of the running kernel; NULL: it is read from /proc */
	struct meters *meters;          /* NULL: nothing is metered */
	struct quota *quota;            /* NULL: there are none */
	struct shares *shares;          /* NULL: all is served as it comes */
	struct wall_client *wall;       /* NULL: nothing can be reached from any sandbox */
	struct range_site network_site; /* what the operator closes; borrowed */
	bool has_disk_share;            /* projects have a share of the disk (owner.c) */
	uint64_t usage_period_ms;       /* between two readings of a sandbox */
	uint64_t usage_kept_ms;         /* of single sandboxes; of projects it is kept for good */
	/* Spares (pool.c): at least and at most so many, of at most so much memory; max 0 = none.
	 */
	uint32_t pool_min, pool_max;
	uint64_t pool_memory_bytes;
	char **pool_languages; /* NULL-terminated: interpreters that they have running; or NULL */
	const struct pool_timing *pool_timing; /* NULL = the usual (pool.h) */
	/* The broker died: there is nothing left to do but exit and be started anew. NULL: stops
	 * the loop. */
	loop_fn broker_lost;
	void *broker_lost_arg;
	const struct link_timing *timing; /* patience with agents; NULL = the usual (link.h) */
};

/* Loads the store's sandboxes, asks the broker who is alive, reconnects to those, closes the books
 * of the others; then ready is called. */
must_check int fleet_new(const struct fleet_config *config, loop_fn ready, void *arg,
                         struct fleet **ret, struct err *err);
void fleet_free(struct fleet *fleet);
bool fleet_is_ready(const struct fleet *fleet);
const struct fleet_config *fleet_config(const struct fleet *fleet);
/* The broker's word about this host: cpus, memory, isolation. Valid once ready. */
const struct msg_reply *fleet_host(const struct fleet *fleet);
/* Has the broker say it again, and the wall that it lives; fleet_host() is fresh once the broker
 * has answered. */
void fleet_ping(struct fleet *fleet);
uint64_t fleet_broker_silent_us(const struct fleet *fleet); /* it owes an answer for so long */
uint64_t fleet_wall_silent_us(const struct fleet *fleet);   /* likewise */
/* The disk below sandboxes and daemon, as the broker told last. */
const struct host_disk *fleet_disk(const struct fleet *fleet);
/* May work begin that takes from it? Else ERR_HOST_DISK_FULL, or why there is none. */
must_check int fleet_check_disk(const struct fleet *fleet, struct err *err);
/* Figures of all projects together. */
struct fleet_counts { /* since the start */
	uint64_t creates, creates_failed, execs, code_failed;
	uint64_t outputs_dropped; /* of execs that are over, to keep within the bounds */
	struct histogram create_us, code_us;
};
const struct fleet_counts *fleet_counts(const struct fleet *fleet);
void fleet_count_states(const struct fleet *fleet, size_t ret[SANDBOX_STATE_COUNT]);
struct loop_stats fleet_broker_turns(const struct fleet *fleet); /* as of a moment ago */
size_t fleet_count(const struct fleet *fleet);                   /* alive */
/* Bytes of execs' output on disk; project_id NULL: of all. */
uint64_t fleet_output_kept(const struct fleet *fleet, const char *project_id);
/* Has a project's sandboxes read that were not for a moment, so that the next look finds more. */
void fleet_freshen(struct fleet *fleet, const char *project_id);
struct pool_figures {
	size_t ready, target;  /* spares there are, and there should be */
	size_t ready_vms;      /* of those that are ready */
	unsigned failures;     /* of filling it, one after the other */
	uint64_t hits, misses; /* creates that one would fit, with and without one */
};
void fleet_pool(const struct fleet *fleet, struct pool_figures *ret);
/* Deletes what belongs to nobody, and makes no more; done as below. */
void fleet_close_pool(struct fleet *fleet, loop_fn done, void *arg);
/* Deletes all that live, of all projects, and stops the persistent ones; done once nothing runs
 * (cloche run without a daemon, `serve --rm`). */
void fleet_delete_all(struct fleet *fleet, loop_fn done, void *arg);

struct sandbox *sandbox_find(struct fleet *fleet, const char *project_id,
                             const char *id_or_name); /* borrowed or NULL */

struct sandbox *sandbox_find_name(struct fleet *fleet, const char *project_id,
                                  const char *name); /* the same by name alone */

/* By what a caller shows instead of a key: the first of all projects' that says yes; id NULL = any.
 */
struct sandbox *sandbox_find_shown(struct fleet *fleet, const char *id,
                                   bool (*says_yes)(const struct sandbox *s, void *arg), void *arg);

bool fleet_forbids(const struct fleet *fleet, uint32_t engine); /* to clients, by its settings */

struct sandbox_filter {
	const char *project_id;
	const char *tag_name, *tag_value; /* NULL = any */
	const char *state;                /* NULL = all that live or are kept */
	const char *after_id; /* cursor: the last one of the page before, NULL = from the newest */
	size_t limit;
};
/* Newest first. Calls fn for each; returns the count. *ret_more tells whether another page follows.
 */
size_t fleet_list(struct fleet *fleet, const struct sandbox_filter *filter,
                  void (*fn)(struct sandbox *s, void *arg), void *arg, bool *ret_more);
