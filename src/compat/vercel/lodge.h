// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What Vercel calls a sandbox is called a lodge here: a name with settings, which lasts. What it
 * calls a session is a stay in it: one of our sandboxes, made from the lodge's settings and its
 * current snapshot.
 *
 *	stopped --> starting --> running --> stopping, snapshotting --> stopped
 *
 * A session that ends leaves a snapshot, of a persistent lodge always, of another if it was asked
 * for; the next one starts from that. So a session's id is the sandbox's, its commands are execs,
 * its files the sandbox's, and nothing of a session outlives it but the snapshot. Lodges, their
 * sessions and snapshots (a deleted one is still told of) are rows of the store; what is true now
 * is looked up among the sandboxes and snapshots of the daemon, which can be changed by others.
 */
#include "api/api.h"
#include "base/list.h"
#include "sandbox/snapshot.h"

#include <uthash.h>

#define SESSIONS_KEPT 50   /* of a lodge; the oldest are forgotten */
#define STILLS_KEPT   100  /* of a lodge that are deleted, likewise */
#define LODGES_MAX    1000 /* of a project; those that cannot be resumed give way */
#define STILLS_GONE   1000 /* deleted ones of all lodges, likewise */

enum lodge_phase {
	LODGE_STOPPED,
	LODGE_STARTING,
	LODGE_RUNNING,
	LODGE_STOPPING,
	LODGE_SNAPSHOTTING,
	LODGE_PHASE_COUNT
};

struct lodge;

struct stay {
	char id[ID_SIZE]; /* of the sandbox */
	struct lodge *lodge;
	struct list link;
	UT_hash_handle hh;
	uint64_t requested_ms, started_ms, stop_asked_ms, stopped_ms, snapshotted_ms; /* 0 = not */
	uint64_t timeout_ms, vcpus, memory_mib;
	uint64_t cpu_ms, in_bytes, out_bytes; /* of one that is over */
	char source[ID_SIZE];                 /* the snapshot that it was started from, or "" */
	bool is_over, is_aborted;             /* is_aborted: nothing of it could be kept */
	char token[ID_SIZE];                  /* of its terminals, or ""; not kept */
};

/* A lodge's settings. */
struct lodge_config {
	bool is_persistent;
	uint64_t vcpus, memory_mib, timeout_ms;
	uint64_t snapshot_expires_ms; /* after which a snapshot goes; 0 = never */
	uint64_t keep_last;           /* snapshots; 0 = all */
	uint64_t keep_last_expires_ms;
	bool has_keep_expiry, keeps_evicted;
	char *runtime, *image, *region, *network_id; /* or NULL */
	json_t *env, *tags;                          /* objects */
	json_t *mounts;                              /* object: path to {drive, mode} */
	json_t *ports, *failover_regions;            /* arrays */
	json_t *policy;                              /* as it was asked for; never NULL */
};

struct lodge {
	struct list link; /* in the order of creation */
	struct vercel *vercel;
	char id[ID_SIZE], project_id[ID_SIZE], key_id[ID_SIZE];
	char *space; /* Vercel's project, a division of ours */
	char *name;
	struct lodge_config config;
	json_t *source; /* of its first session, or NULL; never kept: it may hold a password */
	uint64_t created_ms, updated_ms, status_ms;
	uint64_t cpu_ms, in_bytes, out_bytes, duration_ms; /* of all that are over */
	char snapshot[ID_SIZE];                            /* the current one, or "" */
	struct list sessions;                              /* the newest is the last */
	size_t n_sessions;
	enum lodge_phase phase;
	bool is_doomed;             /* goes when its session has ended */
	struct list starts, stops;  /* struct lodge_wait */
	bool is_manual;             /* of the snapshot that is being taken */
	uint64_t wanted_expires_ms; /* likewise */
	bool has_wanted_expiry;     /* likewise */
	char still_id[ID_SIZE];     /* what came of it, or "" */
};

/* A snapshot, also one that is gone. */
struct still {
	struct list link; /* in the order of creation */
	char id[ID_SIZE], project_id[ID_SIZE], session_id[ID_SIZE], parent_id[ID_SIZE];
	char *space, *lodge;
	uint64_t created_ms, updated_ms, used_ms, expires_in_ms, expires_ms, bytes;
	bool is_manual, is_deleted;
};

struct vercel {
	struct api *api;
	struct list lodges, stills;
	size_t n_lodges;
	struct stay *sessions; /* by id */
};

uint64_t vercel_now_ms(void);

/* record.c: rows. */
must_check int vercel_load(struct vercel *v, struct err *err);
must_check int lodge_save(const struct lodge *b, struct err *err);
void lodge_note(const struct lodge *b); /* the same of what has happened already */
struct lodge *lodge_new(struct vercel *v, const char *project_id, const char *name);
void lodge_config_done(struct lodge_config *c);
void lodge_free(struct lodge *b); /* from memory */
void lodge_remove(struct lodge *b);
struct stay *stay_new(struct lodge *b, const char *id);
bool lodge_can_resume(const struct lodge *b);   /* it has a snapshot to start from */
struct stay *lodge_stay(const struct lodge *b); /* the last one, or NULL */
void stay_free(struct stay *s);

/* still.c */
must_check int stills_load(struct vercel *v, struct err *err);
struct still *still_find(const struct vercel *v, const char *project_id, const char *id);
/* One that was just taken of the session. */
struct still *still_add(struct stay *s, const struct snapshot *sn, uint64_t expires_in_ms,
                        bool is_manual);
void still_use(struct vercel *v, struct still *still); /* a session is started from it */
must_check int still_delete(struct vercel *v, struct still *still, struct err *err);
void still_look(struct vercel *v, struct still *still); /* whether it is still there */
void stills_evict(struct lodge *b);                     /* what its settings do not keep */
void still_free(struct still *still);
/* "snap_…" on their wire, "sn_…" on ours; ret is "" for what is neither. */
void still_id_in(const char *theirs, char ret[ID_SIZE]);
void still_id_out(const char *ours, char ret[ID_SIZE]);

/* life.c */
/* b and err: exactly one is NULL. From the loop. */
typedef void (*lodge_fn)(struct lodge *b, const struct err *err, void *arg);
/* Makes it run, if it does not; *ret_starts: it is this call that does so. */
must_check int lodge_start(struct lodge *b, lodge_fn done, void *arg, bool *ret_starts,
                           struct err *err);
struct lodge_stop {
	bool is_snapshot; /* one is wanted whatever the settings say */
	bool has_expiry;
	uint64_t expires_ms;
	bool is_last; /* the lodge goes, too, and no snapshot is taken */
};
void lodge_stop(struct lodge *b, const struct lodge_stop *how, lodge_fn done, void *arg);
enum lodge_phase lodge_phase(const struct lodge *b); /* as it is right now */
/* The session's sandbox, while it runs; else NULL. */
struct sandbox *stay_sandbox(const struct stay *s);
void lodge_open_ports(struct lodge *b,
                      struct sandbox *s);  /* those of its settings, and no others */
void lodge_resume_watch(struct vercel *v); /* after a start of the daemon */
void lodge_forget_waits(struct lodge *b);

void lodge_move(struct lodge *b, enum lodge_phase phase);
/* A call that outlives the session that it is for: by id, which may mean nothing by then. */
struct errand;
struct errand *errand_new(const struct stay *s);
struct stay *errand_end(struct errand *c); /* the session, or NULL; frees the call */
/* What comes of birth_begin(), later. */
void lodge_born(struct stay *s, struct sandbox *native);
void lodge_unborn(struct lodge *b, const struct err *err);

/* birth.c */
#define LODGE_NOTE "vercel" /* in the sandbox's notes: the lodge's id */
must_check int birth_begin(struct lodge *b, struct err *err);
const char *lodge_user(const struct lodge *b); /* whose the programs of its sessions are */

/* furnish.c: what Vercel's programs expect to find in a new sandbox. done gets err or NULL. */
#define VERCEL_HOME "/vercel/sandbox"
#define VERCEL_SOURCE                                                                              \
	".vercel-source" /* below the user's home: where a create's source was put                 \
	                  */
typedef void (*furnish_fn)(const struct err *err, void *arg);
/* repository: NULL: there is no source; "": the source is all of VERCEL_HOME; else its name there.
 */
void furnish(struct sandbox *s, const char *owner, const char *repository, furnish_fn done,
             void *arg);
