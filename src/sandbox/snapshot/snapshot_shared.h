// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What this node knows about its snapshots in the cluster: which are durable, why the others are
 * not, and which removals the cluster has not heard of yet. build/shared sends and fetches them.
 *
 *	taken ──► sending ──► durable ──► removed: the row stays as a note until the cluster has
 *	             └─► here (why it is not sent)		been told
 *	fetched: a copy of another node's, durable from its beginning
 */
#include "sandbox/snapshot/snapshot.h"

/* changed: one was taken, is awaited, has other settings or was removed. */
void snapshots_follow(struct fleet *fleet, void (*changed)(void *arg), void *arg);

/* Whether it should be sent: a client's, or awaited; and it is not durable. */
bool snapshot_is_unsent(const struct snapshot *sn);
bool snapshot_is_fetched(const struct snapshot *sn);
bool snapshot_is_automatic(const struct snapshot *sn);
/* It is kept and sent though it is automatic; with: borrowed, or NULL. */
must_check int snapshot_want_sent(struct snapshot *sn, const json_t *with, struct err *err);
bool snapshot_is_wanted(const struct snapshot *sn);
/* Its removal has to be told from here on. */
must_check int snapshot_set_sending(struct snapshot *sn, struct err *err);
/* off: the cluster knows it no more, and it is to be sent again. */
must_check int snapshot_set_durable(struct snapshot *sn, bool on, struct err *err);
/* Why it was not sent, and when that is tried again (steady; UINT64_MAX: not by this gateway). */
void snapshot_set_unsent(struct snapshot *sn, const struct err *why, uint64_t again_us);
const struct err *snapshot_unsent_why(const struct snapshot *sn);
uint64_t snapshot_again_us(const struct snapshot *sn);
void snapshot_each(struct fleet *fleet, void (*fn)(struct snapshot *sn, void *arg), void *arg);
/* Of the cluster's row. */
const char *snapshot_project_id(const struct snapshot *sn);
const char *snapshot_source_id(const struct snapshot *sn);
const char *snapshot_template(const struct snapshot *sn);
const struct digest *snapshot_image(const struct snapshot *sn);
uint64_t snapshot_generation(const struct snapshot *sn);
uint64_t snapshot_expires_us(const struct snapshot *sn);

/* All that a copy on another node needs to know; the caller's. It has values of variables. */
json_t *snapshot_describe(const struct snapshot *sn);
/* A snapshot that is not here yet, for struct snapshot_wish; or snapshot_forget_described(). It is
 * read as a stranger's text. */
must_check int snapshot_read_description(struct fleet *fleet, const char *project_id,
                                         const json_t *text, struct snapshot **ret,
                                         struct err *err);
void snapshot_forget_described(struct snapshot *sn);

/* It goes here, and stays what it is elsewhere: a copy that nothing uses, or one whose row has
 * gone. */
void snapshot_drop(struct snapshot *sn);
bool snapshot_is_used(const struct snapshot *sn); /* by a sandbox that was started from it */

struct snapshot_removal { /* of one that is removed here, and not in the cluster */
	struct list link;
	char id[ID_SIZE], project_id[ID_SIZE];
};
struct snapshot_removal *snapshot_first_removal(const struct fleet *fleet); /* NULL: none */
void snapshot_removal_told(struct fleet *fleet, struct snapshot_removal *note);
