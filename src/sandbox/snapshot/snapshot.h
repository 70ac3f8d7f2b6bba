// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Snapshots: what a sandbox was at one moment, to start others from or to go back to. One belongs
 * to the project of its source and outlives it.
 *
 *	sandbox ── snapshot_take() ──► snapshot ── sandbox_create() ──► sandbox …
 *	    └────────── sandbox_fork(): both in one call, many times ──────┘
 *
 * The broker has the bytes, the store the rows. One is taken first and recorded then; what the
 * broker has of this store without a row goes at the next start. A row whose bytes are not there or
 * not whole is `damaged`: told, and never started from.
 *
 * Bytes that several have are charged once: of the snapshots of one source each is charged for what
 * the source had written since the one before.
 */
#include "base/json/json.h"
#include "sandbox/model/sandbox.h"
#include "sandbox/storage/image.h"

struct fleet;
struct snapshot;

#define SNAPSHOT_NAME_MAX 63

struct snapshot_wish {           /* borrowed for the call */
	const char *name;        /* unique in the project; NULL = none */
	bool has_memory;         /* its processes too */
	bool closes_connections; /* TCP connections that are open are closed in a copy, else they
	                            fail it */
	uint64_t expires_in_ms;  /* 0 = never */
	uint64_t keep_last;      /* so many of this source, named ones apart; 0 = all */
	bool is_automatic;       /* of a fork: goes with the last sandbox that started from it */
	bool is_last;            /* of a pause: it is held still behind it (struct snapshot_spec) */
};
/* sn and err: exactly one is NULL. From the loop. */
typedef void (*snapshot_done_fn)(struct snapshot *sn, const struct err *err, void *arg);
must_check int snapshot_take(struct sandbox *s, const struct snapshot_wish *wish,
                             snapshot_done_fn done, void *arg, struct err *err);

struct snapshot *snapshot_find(const struct fleet *fleet, const char *project_id,
                               const char *id_or_name); /* borrowed or NULL */
/* Can a new one have that name? */
must_check int snapshot_check_free(const struct fleet *fleet, const char *project_id,
                                   const char *name, struct err *err);
/* Those that were started from it have their own copy. */
must_check int snapshot_remove(struct snapshot *sn, struct err *err);
struct snapshot_patch {
	const char *name; /* NULL = keep; "" = none */
	bool has_expiry;
	uint64_t expires_in_ms; /* 0 = never */
};
must_check int snapshot_update(struct snapshot *sn, const struct snapshot_patch *patch,
                               struct err *err);

struct snapshot_filter {
	const char *project_id;
	const char *source_id; /* NULL = any */
	const char *after_id;  /* cursor: the last one of the page before; NULL = the newest */
	size_t limit;
};
/* Newest first. *ret_more: another page follows. */
void snapshot_list(const struct fleet *fleet, const struct snapshot_filter *filter,
                   void (*fn)(const struct snapshot *sn, void *arg), void *arg, bool *ret_more);
const char *snapshot_id(const struct snapshot *sn);
uint64_t snapshot_bytes(const struct snapshot *sn); /* of its files */
bool snapshot_is_usable(const struct snapshot *sn); /* its bytes are there, whole */
bool snapshot_has_memory(const struct snapshot *sn);
uint32_t snapshot_engine(const struct snapshot *sn); /* its number */
/* What a bundle of its files says of it: {format, template, image, disk_mib}; the caller's. */
json_t *snapshot_describe_bundle(const struct snapshot *sn);
const char *snapshot_name(const struct snapshot *sn); /* "" = none */
void snapshot_to_json(const struct snapshot *sn, struct json_writer *w, const char *name);
/* image_seal() of its files; it may go meanwhile. */
must_check int snapshot_seal(struct snapshot *sn, const struct image_spec *spec,
                             image_sealed_fn done, void *arg, struct image_seal **ret,
                             struct err *err);

/*
 * A sandbox or snapshot as a value that stays what it is while somebody looks at it: a snapshot
 * that is removed meanwhile goes with the last hold, and of a sandbox one is taken that goes with
 * the hold. fn is called once, from the loop, unless snapshot_release() came first.
 */
struct snapshot_hold;
typedef void (*snapshot_held_fn)(const struct err *err, void *arg);
must_check int snapshot_hold(struct fleet *fleet, const char *project_id, const char *id_or_name,
                             snapshot_held_fn fn, void *arg, struct snapshot_hold **ret,
                             struct err *err);
/* Is there such a value? Nothing is done about it. */
must_check int snapshot_hold_check(struct fleet *fleet, const char *project_id,
                                   const char *id_or_name, struct err *err);
void snapshot_release(struct snapshot_hold *h); /* NULL is fine */
/* Once it is held: */
const char *snapshot_hold_id(const struct snapshot_hold *h); /* of the snapshot */
const struct digest *snapshot_hold_image(const struct snapshot_hold *h);
uint32_t snapshot_hold_engine(const struct snapshot_hold *h);                   /* its number */
const struct guest_limits *snapshot_hold_limits(const struct snapshot_hold *h); /* its source's */

/* The latest snapshot that a sandbox or snapshot and another sandbox both come from: of the other
 * one, or one that it was started from, too. NULL: there is none any more. */
const char *lineage_common(struct fleet *fleet, const char *project_id, const char *id_or_name,
                           const struct sandbox *other);
/* All that a sandbox or snapshot comes from and all that came from that: {root_id, nodes} of
 * {kind, id, name, state, parent_id, created_us, bytes}; parents come before their children. */
void lineage_to_json(const struct fleet *fleet, const char *project_id, const char *id,
                     struct json_writer *w);

/*
 * n sandboxes that go on from what this one is now. Each is told by its number, with a sandbox or
 * why there is none; then end is called, with the snapshot that they were started from.
 */
#define FORK_MAX 100
struct fork_spec {
	uint32_t count;
	bool has_memory;
	bool closes_connections;     /* as in struct snapshot_wish */
	const json_t *network;       /* a policy instead of its own; or NULL */
	struct sandbox_spec sandbox; /* what differs: name (a number is put behind it), tags, env,
	                                clocks */
};
struct fork_ops {
	void (*on_one)(uint32_t i, struct sandbox *s, const struct err *err, void *arg);
	/* err: there was no snapshot, so none of them. */
	void (*on_end)(struct snapshot *sn, const struct err *err, void *arg);
};
must_check int sandbox_fork(struct sandbox *s, const struct fork_spec *spec,
                            const struct fork_ops *ops, void *arg, struct err *err);
/* Its files become those of the snapshot, which is named by its id or name; its processes end and
 * it starts anew under its own. */
must_check int sandbox_roll_back(struct sandbox *s, const char *snapshot, sandbox_done_fn done,
                                 void *arg, struct err *err);
