// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Snapshots: the state of a sandbox at one moment, to start others from or to go back to. A
 * snapshot belongs to its source's project and outlives the source.
 *
 *	sandbox ── snapshot_take() ──► snapshot ── sandbox_create() ──► sandbox …
 *	    └────────── sandbox_fork(): both in one call, many times ──────┘
 *
 * The broker has the bytes, the store the rows. A snapshot is taken first and recorded then; bytes
 * of this store without a row are removed at the next start. A row whose bytes are missing or
 * damaged is `damaged`: it is listed, but cannot be started from.
 *
 * Shared bytes are charged once: each snapshot of a source is charged for what the source has
 * written since the one before.
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
	bool closes_connections; /* open TCP connections are closed in a copy; else it fails */
	uint64_t expires_in_ms;  /* 0 = never */
	uint64_t keep_last;      /* of this source, not counting named ones; 0 = all */
	bool is_automatic;       /* of a fork: removed with the last sandbox that started from it */
	bool is_generation;      /* likewise, of a sandbox that outlives its node */
	bool is_last; /* of a pause: the guest stays stopped after it (struct snapshot_spec) */
	/* snapshot_read_description(): what was fetched is a copy of this, and it is taken over if
	 * the call succeeds. All other wishes are none then. Or NULL. */
	struct snapshot *described;
};
/* Called from the loop. Exactly one of sn and err is NULL. */
typedef void (*snapshot_done_fn)(struct snapshot *sn, const struct err *err, void *arg);
must_check int snapshot_take(struct sandbox *s, const struct snapshot_wish *wish,
                             snapshot_done_fn done, void *arg, struct err *err);

struct snapshot *snapshot_find(const struct fleet *fleet, const char *project_id,
                               const char *id_or_name); /* borrowed or NULL */
/* Checks that a new one can have that name. */
must_check int snapshot_check_free(const struct fleet *fleet, const char *project_id,
                                   const char *name, struct err *err);
/* Sandboxes that were started from it have their own copies and go on. */
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
	/* In the order that is that of all nodes of a cluster, by the time of creation and then by
	 * id: after_id may be another node's, and was created then; 0 = not known. */
	bool is_ordered;
	uint64_t after_us;
	size_t limit;
};
/* Newest first. *ret_more: another page follows. */
void snapshot_list(const struct fleet *fleet, const struct snapshot_filter *filter,
                   void (*fn)(const struct snapshot *sn, void *arg), void *arg, bool *ret_more);
const char *snapshot_id(const struct snapshot *sn);
uint64_t snapshot_created_us(const struct snapshot *sn); /* wall clock */
uint64_t snapshot_bytes(const struct snapshot *sn);      /* of its files */
bool snapshot_is_usable(const struct snapshot *sn);      /* its bytes are there, whole */
bool snapshot_has_memory(const struct snapshot *sn);
bool snapshot_is_durable(const struct snapshot *sn); /* it outlives this node */
/* What went along with it (build/shared/shared_snapshot.h), borrowed; NULL: nothing. */
const json_t *snapshot_companion(const struct snapshot *sn);
uint32_t snapshot_engine(const struct snapshot *sn); /* its number */
/* The description in a bundle of its files: {format, template, image, disk_mib}; the caller owns
 * it. */
json_t *snapshot_describe_bundle(const struct snapshot *sn);
const char *snapshot_name(const struct snapshot *sn); /* "" = none */
void snapshot_to_json(const struct snapshot *sn, struct json_writer *w, const char *name);
/* image_seal() of its files; the snapshot may be removed meanwhile. */
must_check int snapshot_seal(struct snapshot *sn, const struct image_spec *spec,
                             image_sealed_fn done, void *arg, struct image_seal **ret,
                             struct err *err);

/*
 * Holds a sandbox or snapshot as a value that does not change while it is read. A snapshot that is
 * removed meanwhile is really deleted after the last hold; of a sandbox, a snapshot is taken that
 * is removed with the hold. fn is called once, from the loop, unless snapshot_release() came first.
 */
struct snapshot_hold;
typedef void (*snapshot_held_fn)(const struct err *err, void *arg);
must_check int snapshot_hold(struct fleet *fleet, const char *project_id, const char *id_or_name,
                             snapshot_held_fn fn, void *arg, struct snapshot_hold **ret,
                             struct err *err);
/* Checks that there is such a value; does nothing else. */
must_check int snapshot_hold_check(struct fleet *fleet, const char *project_id,
                                   const char *id_or_name, struct err *err);
void snapshot_release(struct snapshot_hold *h); /* NULL is fine */
/* Once it is held: */
const char *snapshot_hold_id(const struct snapshot_hold *h); /* of the snapshot */
const struct digest *snapshot_hold_image(const struct snapshot_hold *h);
uint32_t snapshot_hold_engine(const struct snapshot_hold *h);                   /* its number */
const struct guest_limits *snapshot_hold_limits(const struct snapshot_hold *h); /* its source's */

/* The latest common ancestor of a sandbox or snapshot and another sandbox: a snapshot of that one,
 * or one that it was started from. NULL if there is none any more. */
const char *lineage_common(struct fleet *fleet, const char *project_id, const char *id_or_name,
                           const struct sandbox *other);
/* The whole tree of a sandbox or snapshot: {root_id, nodes} of {kind, id, name, state, parent_id,
 * created_us, bytes}; parents come before their children. */
void lineage_to_json(const struct fleet *fleet, const char *project_id, const char *id,
                     struct json_writer *w);

/*
 * Makes n sandboxes that go on from the current state of this one. Each is reported by its number,
 * with a sandbox or an error; then on_end() is called, with the snapshot that they were started
 * from.
 */
#define FORK_MAX 100
struct fork_spec {
	uint32_t count;
	bool has_memory;
	bool closes_connections;     /* as in struct snapshot_wish */
	const json_t *network;       /* a policy instead of its own; or NULL */
	struct sandbox_spec sandbox; /* changes: name (with a number), tags, env, clocks */
};
/* How the memory went over: "imprint", "criu" or "machine"; NULL: it did not. */
struct fork_memory {
	const char *by;
	const char *why; /* not by an imprint; or NULL */
};
struct fork_ops {
	void (*on_one)(uint32_t i, struct sandbox *s, const struct err *err, void *arg);
	/* err: the snapshot failed, so there are no forks. */
	void (*on_end)(struct snapshot *sn, const struct fork_memory *memory, const struct err *err,
	               void *arg);
};
must_check int sandbox_fork(struct sandbox *s, const struct fork_spec *spec,
                            const struct fork_ops *ops, void *arg, struct err *err);
/* Replaces its files by those of the snapshot, given by id or name. Its processes end, and it
 * starts again under its own id. */
must_check int sandbox_roll_back(struct sandbox *s, const char *snapshot, sandbox_done_fn done,
                                 void *arg, struct err *err);
