// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What Vercel calls a sandbox is a vercel_sandbox here: a name with settings, which lasts. What it
 * calls a session is a vercel_session: one of our sandboxes (a variable of that kind is called
 * native), made from the settings and the current snapshot.
 *
 *	stopped --> starting --> running --> stopping, snapshotting --> stopped
 *
 * A session that ends leaves a snapshot: always if persistent, else if it was asked for. The next
 * session starts from that. So a session's id is our sandbox's, its commands are execs, its files
 * are the sandbox's, and only the snapshot outlives it. Sandboxes, their sessions and snapshots
 * (also deleted ones) are rows of the store. The current state is looked up among the sandboxes and
 * snapshots of the daemon, since other clients may change those.
 */
#include "api/api.h"
#include "base/list.h"
#include "sandbox/snapshot/snapshot.h"

#include <uthash.h>

#define SESSIONS_KEPT          50   /* of a sandbox; the oldest are forgotten */
#define DELETED_SNAPSHOTS_KEPT 100  /* deleted ones of a sandbox, likewise */
#define VERCEL_SANDBOXES_MAX   1000 /* of a project; those that cannot be resumed give way */
#define DELETED_SNAPSHOTS_MAX  1000 /* deleted ones of all sandboxes, likewise */

enum vercel_sandbox_phase {
	VERCEL_SANDBOX_STOPPED,
	VERCEL_SANDBOX_STARTING,
	VERCEL_SANDBOX_RUNNING,
	VERCEL_SANDBOX_STOPPING,
	VERCEL_SANDBOX_SNAPSHOTTING,
	VERCEL_SANDBOX_PHASE_COUNT
};

struct vercel_sandbox;

struct vercel_session {
	char id[ID_SIZE]; /* of the sandbox */
	struct vercel_sandbox *sandbox;
	struct list link;
	UT_hash_handle hh;
	uint64_t requested_ms, started_ms, stop_asked_ms, stopped_ms, snapshotted_ms; /* 0 = not */
	uint64_t timeout_ms, vcpus, memory_mib;
	uint64_t cpu_ms, in_bytes, out_bytes; /* if it is over */
	char source[ID_SIZE];                 /* the snapshot that it was started from, or "" */
	bool is_over, is_aborted;             /* is_aborted: nothing of it could be kept */
	json_t *tokens; /* of its terminals, by key (tenant/key_token.h), or NULL; not kept */
};

/* A sandbox's settings. */
struct vercel_sandbox_config {
	bool is_persistent;
	uint64_t vcpus, memory_mib, timeout_ms;
	uint64_t snapshot_expires_ms; /* after which a snapshot is removed; 0 = never */
	uint64_t keep_last;           /* snapshots; 0 = all */
	uint64_t keep_last_expires_ms;
	bool has_keep_expiry, keeps_evicted;
	char *runtime, *image, *region, *network_id; /* or NULL */
	json_t *env, *tags;                          /* objects */
	json_t *mounts;                              /* object: path to {drive, mode} */
	json_t *ports, *failover_regions;            /* arrays */
	json_t *policy;                              /* as it was asked for; never NULL */
	char *locked; /* the row's sealed policy, which does not open; or NULL */
};

struct vercel_sandbox {
	struct list link; /* in the order of creation */
	struct vercel *vercel;
	char id[ID_SIZE], project_id[ID_SIZE], key_id[ID_SIZE];
	char *space; /* Vercel's project, a division of ours */
	char *name;
	struct vercel_sandbox_config config;
	json_t *source; /* of its first session, or NULL; never kept: it may hold a password */
	uint64_t created_ms, updated_ms, status_ms;
	uint64_t cpu_ms, in_bytes, out_bytes, duration_ms; /* of all that are over */
	char snapshot[ID_SIZE];                            /* the current one, or "" */
	struct list sessions;                              /* the newest is the last */
	size_t n_sessions;
	enum vercel_sandbox_phase phase;
	uint64_t wait_ms;           /* of who starts it, for room */
	bool is_doomed;             /* removed when its session has ended */
	bool is_unnamed;            /* in a cluster: its name is not known to be its own yet */
	struct list starts, stops;  /* struct vercel_sandbox_wait */
	bool is_manual;             /* of the snapshot that is being taken */
	uint64_t wanted_expires_ms; /* likewise */
	bool has_wanted_expiry;     /* likewise */
	char taken_id[ID_SIZE];     /* the result, or "" */
};

/* A snapshot, also a deleted one. */
struct vercel_snapshot {
	struct list link; /* in the order of creation */
	char id[ID_SIZE], project_id[ID_SIZE], session_id[ID_SIZE], parent_id[ID_SIZE];
	char *space, *sandbox;
	uint64_t created_ms, updated_ms, used_ms, expires_in_ms, expires_ms, bytes;
	bool is_manual, is_deleted;
};

struct vercel {
	struct api *api;
	struct list sandboxes, snapshots;
	size_t n_sandboxes;
	struct vercel_session *sessions; /* by id */
};

uint64_t vercel_now_ms(void);

/* sandbox_row.c: rows. */
must_check int vercel_load(struct vercel *v, struct err *err);
struct vercel_sandbox *vercel_sandbox_by_id(const struct vercel *v, const char *id); /* or NULL */
must_check int vercel_sandbox_save(const struct vercel_sandbox *box, struct err *err);
void vercel_sandbox_note(
	const struct vercel_sandbox *box); /* the same for something that has already happened */
struct vercel_sandbox *vercel_sandbox_new(struct vercel *v, const char *project_id,
                                          const char *name);
void vercel_sandbox_config_done(struct vercel_sandbox_config *c);
void vercel_sandbox_free(struct vercel_sandbox *box); /* from memory */
void vercel_sandbox_remove(struct vercel_sandbox *box);
struct vercel_session *vercel_session_new(struct vercel_sandbox *box, const char *id);
bool vercel_sandbox_can_resume(
	const struct vercel_sandbox *box); /* it has a snapshot to start from */
struct vercel_session *vercel_sandbox_session(
	const struct vercel_sandbox *box); /* the last one, or NULL */
void vercel_session_free(struct vercel_session *s);

/* shared_name.c: in a cluster, one sandbox of all nodes has a name. */
#define VERCEL_LABEL_SIZE 48 /* of a name among those of native sandboxes, with its NUL */
void vercel_label_make(const char *space, const char *name, char ret[VERCEL_LABEL_SIZE]);
bool vercel_is_label(const char *text);
void vercel_share_names(struct vercel *v);
void vercel_name_take(const struct vercel_sandbox *box, node_done_fn fn, void *arg);
void vercel_name_give(const struct vercel_sandbox *box);

/* vercel_snapshot.c */
must_check int vercel_snapshots_load(struct vercel *v, struct err *err);
struct vercel_snapshot *vercel_snapshot_find(const struct vercel *v, const char *project_id,
                                             const char *id);
/* Adds a snapshot that was just taken of the session. */
struct vercel_snapshot *vercel_snapshot_add(struct vercel_session *s, const struct snapshot *sn,
                                            uint64_t expires_in_ms, bool is_manual);
void vercel_snapshot_use(struct vercel *v,
                         struct vercel_snapshot *snapshot); /* a session is started from it */
must_check int vercel_snapshot_delete(struct vercel *v, struct vercel_snapshot *snapshot,
                                      struct err *err);
void vercel_snapshot_look(struct vercel *v,
                          struct vercel_snapshot *snapshot); /* whether it is still there */
void vercel_snapshots_evict(struct vercel_sandbox *box); /* removes what its settings do not keep */
void vercel_snapshot_free(struct vercel_snapshot *snapshot);
/* "snap_…" in Vercel's API, "sn_…" in ours; ret is "" for anything else. */
void vercel_snapshot_id_in(const char *theirs, char ret[ID_SIZE]);
void vercel_snapshot_id_out(const char *ours, char ret[ID_SIZE]);

/* lifecycle.c */
/* Called from the loop. Exactly one of box and err is NULL. */
typedef void (*vercel_sandbox_fn)(struct vercel_sandbox *box, const struct err *err, void *arg);
/* Makes it run, if it does not; *ret_starts: this call has started it. */
must_check int vercel_sandbox_start(struct vercel_sandbox *box, vercel_sandbox_fn done, void *arg,
                                    bool *ret_starts, struct err *err);
struct vercel_sandbox_stop {
	bool is_snapshot; /* one is wanted whatever the settings say */
	bool has_expiry;
	uint64_t expires_ms;
	bool is_last; /* the sandbox is removed too, and no snapshot is taken */
};
void vercel_sandbox_stop(struct vercel_sandbox *box, const struct vercel_sandbox_stop *how,
                         vercel_sandbox_fn done, void *arg);
enum vercel_sandbox_phase vercel_sandbox_phase(
	const struct vercel_sandbox *box); /* as it is right now */
/* The session's sandbox, while it runs; else NULL. */
struct sandbox *vercel_session_sandbox(const struct vercel_session *s);
void vercel_sandbox_open_ports(struct vercel_sandbox *box,
                               struct sandbox *s);  /* those of its settings, and no others */
void vercel_sandbox_resume_watch(struct vercel *v); /* after a start of the daemon */
void vercel_sandbox_forget_waits(struct vercel_sandbox *box);

void vercel_sandbox_move(struct vercel_sandbox *box, enum vercel_sandbox_phase phase);
/* A call that may outlive its session: it holds the id, which may be unknown by then. */
struct session_call;
struct session_call *session_call_new(const struct vercel_session *s);
struct vercel_session *session_call_end(
	struct session_call *c); /* the session, or NULL; frees the call */
/* The result of vercel_session_create(). */
void vercel_session_created(struct vercel_session *s, struct sandbox *native);
void vercel_session_failed(struct vercel_sandbox *box, const struct err *err);

/* session_create.c */
#define VERCEL_NOTE "vercel" /* in the native sandbox's notes: the id of theirs */
must_check int vercel_session_create(struct vercel_sandbox *box, struct err *err);
const char *vercel_user_of(const struct sandbox *native); /* of its programs */

/* session_setup.c: what Vercel's programs expect to find in a new sandbox. done gets err or
 * NULL. */
#define VERCEL_HOME "/vercel/sandbox"
#define VERCEL_SOURCE                                                                              \
	".vercel-source" /* where a create's source was put, from where commands begin             \
	                  */
typedef void (*session_setup_fn)(const struct err *err, void *arg);
struct vercel_user {
	const char *name, *home; /* static */
};
/* user: what the owner is called from then on, or NULL. repository: NULL: there is no source; "":
 * the source becomes VERCEL_HOME itself; else its name there.
 */
void session_setup(struct sandbox *s, const char *owner, const struct vercel_user *user,
                   const char *repository, session_setup_fn done, void *arg);
