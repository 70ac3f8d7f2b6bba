// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to the files of snapshots: the members of a snapshot. */
#include "sandbox/snapshot/snapshots.h"
#include "store/tables/snapshots.h"

struct snapshot {
	struct list link; /* in the fleet's, in order of creation */
	struct fleet *fleet;
	char id[ID_SIZE], project_id[ID_SIZE], key_id[ID_SIZE];
	char source_id[ID_SIZE];
	char parent_id[ID_SIZE]; /* the previous one of the source, or the source's origin; or "" */
	char origin_id[ID_SIZE]; /* what the source was started from; or "" */
	char *name;              /* "" = none */
	uint64_t generation, created_us, expires_us;
	uint64_t used_us; /* of a warm copy: last */
	char *template;
	struct digest image;
	uint32_t engine;  /* its number: what can start from it */
	char *user, *cwd; /* or NULL */
	struct guest_limits limits;
	json_t *env;
	json_t *carried; /* with memory: its processes (copied_processes.c); else NULL */
	uint64_t line;   /* of struct snapshot_info */
	uint64_t bytes, written_bytes, memory_bytes;
	uint64_t own_bytes; /* the part that it is charged for */
	bool is_unshared;   /* all of them */
	bool is_automatic;
	bool is_generation; /* of its source's: charged to nobody, in no list and no event */
	bool has_trust;     /* network_has_trust() of its source */
	bool is_there;      /* the broker has it, whole */
	/* snapshot_shared.h: */
	bool is_durable, is_fetched;
	bool is_wanted;  /* it is sent though it is automatic */
	bool is_removed; /* of a row alone: the cluster is not told yet */
	bool is_sending; /* the cluster may have a row of it */
	struct err why;  /* it is not sent; code ERR_NONE: it will be */
	uint64_t again_us;
	json_t *companion;
	struct meter *meter;
};

struct snapshot *snapshot_alloc(struct fleet *fleet);
void snapshot_free(struct snapshot *sn);
must_check int snapshot_save(const struct snapshot *sn, struct err *err);
must_check int snapshot_load(struct fleet *fleet, const struct snapshot_row *row,
                             struct snapshot **ret);
/* Charges each snapshot of the source for what the ones before do not have. is_asked: the quota
 * must first admit what the last one adds. */
must_check int snapshot_charge(struct fleet *fleet, const char *source_id, bool is_asked,
                               struct err *err);
void snapshot_discard(struct fleet *fleet, const char *id); /* at the broker */
/* Whether it is held. Then it is discarded with the last hold. */
bool snapshot_hold_outlives(struct fleet *fleet, const char *id);
void snapshot_forget(struct snapshot *sn);            /* a failed one: removes it from all sums */
json_t *snapshot_row_json(const struct snapshot *sn); /* the caller's; NULL: no room */
bool snapshot_is_in_use(const struct fleet *fleet, const struct snapshot *sn);
void snapshot_tell(const struct fleet *fleet); /* who follows */
void snapshot_keep_removal(struct fleet *fleet, const char *id, const char *project_id);
void snapshot_removals_close(struct fleet *fleet);
void snapshot_cluster_to_json(const struct snapshot *sn, struct json_writer *w);
void snapshot_look_at_expiry(struct fleet *fleet);
