// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A sandbox: one isolated machine, from the request that asks for it until its disk is gone.
 *
 *	creating --> running <--> pausing, paused
 *	    ^  +--------+--------------+------> stopping --> stopped
 *	    |                                      +-------> failed (its agent crashed or broke the
 *	    +---- a persistent one is resumed -----------+    protocol)
 *
 * A failed create leaves nothing: it is undone before its caller is told. A failed resume leaves
 * the files as they were. All calls are made on the loop's thread and none blocks. phase.h has the
 * phases within these states.
 *
 * A persistent sandbox keeps its files when it ends, for whatever reason, and is started over them
 * when it is next needed, with the same id and name; only a delete removes them. Any other ended
 * sandbox can still be found, with its cause, until it is forgotten (by a delete, or by age).
 */
#include "base/json/json.h"
#include "engine/engine.h"
#include "store/tables/usage.h"

struct fleet;
struct idempotency_key;
struct sandbox;
struct template;

enum sandbox_state {
	SANDBOX_CREATING,
	SANDBOX_RUNNING,
	SANDBOX_STOPPING,
	SANDBOX_STOPPED,
	SANDBOX_FAILED,
	SANDBOX_PAUSING, /* in rows these are numbers: new ones come last */
	SANDBOX_PAUSED,
	SANDBOX_STATE_COUNT
};
const char *sandbox_state_name(enum sandbox_state state);

enum end_cause {
	END_NONE,
	END_EXITED,
	END_OOM,
	END_PIDS,
	END_DISK_FULL,
	END_TIMEOUT,
	END_IDLE,
	END_KILLED,
	END_DELETED,
	END_GUEST_CRASH,
	END_HOST_RESTART,
	END_POLICY,
	END_STOPPED,   /* by a request to stop it */
	END_NODE_LOST, /* its node was cut off from its cluster for too long */
	END_CAUSE_COUNT
};
const char *end_cause_name(enum end_cause cause);

/* When its node is silent. Restore: another node runs it, with the files of its last durable
 * generation (lifecycle/restorable.h). */
enum on_node_loss { ON_NODE_LOSS_END, ON_NODE_LOSS_RESTORE, ON_NODE_LOSS_COUNT };
const char *on_node_loss_name(enum on_node_loss word);

/* What happens when its time is up, or when it was idle for too long. */
enum timeout_action { ON_TIMEOUT_DELETE, ON_TIMEOUT_STOP, ON_TIMEOUT_PAUSE, ON_TIMEOUT_COUNT };
const char *timeout_action_name(enum timeout_action action);

#define SANDBOX_TAGS_MAX  32
#define SANDBOX_NAME_MAX  63
#define GROUP_MEMBERS_MAX 64

/* It could run. life_next() lets it, create_fail() ends it. */
typedef void (*sandbox_made_fn)(struct sandbox *s, void *arg);

struct sandbox_spec {      /* strings and JSON are borrowed for the call */
	const char *name;  /* NULL or a name: [a-z0-9]([a-z0-9-]*[a-z0-9])?, unique among the
	                      project's living */
	const char *group; /* of sandboxes that reach each other (registry.h), by a name; or NULL */
	const char *alias; /* its host name in the group; NULL = its name */
	const char *key_id;     /* of the caller; NULL = none */
	const char *template;   /* a name or id (template.h); NULL = the daemon's default */
	const char *snapshot;   /* instead: an id or name (snapshot.h) */
	bool has_no_memory;     /* of a snapshot that has one: its files only */
	const char *image_ref;  /* instead: of a registry; who asks sets template for it. Or NULL */
	const char *image_pull; /* of image_ref: "always", "missing"; NULL = if an hour old */
	const struct digest *image; /* instead: an image that may have no name; or NULL */
	bool is_shown;    /* the image is not its root, but the directory /template of `host` */
	bool is_writable; /* there it can be changed, for a new image (is_over of image.h) */
	const char *shown[SHOWN_MAX];  /* ids of snapshots of one template: their files are shown
	                                  read-only in /shown of a sandbox of `host`, or of a vm of
	                                  that template; NULL = none */
	const json_t *volumes;         /* array of {volume, path, read_only}, or NULL */
	const char *shown_volume;      /* id of a volume of any project, or NULL */
	const char *shown_volume_path; /* where it is mounted; NULL = /volume */
	const json_t *results;         /* array of paths (lifecycle/results.h), or NULL */
	const json_t *packages;        /* array of packages to add (build/set.h); or NULL */
	const struct template *set;    /* which has them, in the template's place; or NULL */
	const json_t *tags;            /* object of strings, or NULL; checked by sandbox_create() */
	const json_t *env;             /* object of strings, or NULL: every exec's defaults */
	const json_t *network;         /* a policy (net/policy/policy.h), or NULL: deny-all */
	const json_t *source;          /* its source (sandbox/lifecycle/create_source.h), or NULL */
	struct guest_limits limits;    /* 0 = the default */
	struct exec_limits exec_limits;
	uint64_t wait_ms;         /* its caller waits for room (tenant/create_queue.h); 0 = not */
	uint64_t timeout_ms;      /* hard lifetime; 0 = the default */
	uint64_t idle_timeout_ms; /* without activity; 0 = none */
	const char *on_timeout;   /* "delete", "stop", "pause"; NULL = stop if persistent, else
	                             delete */
	const char *on_idle;      /* the same, of the idle time; NULL = as on_timeout */
	const char *on_node_loss; /* "end", "restore"; NULL = end */
	/* Data of another product's API (src/compat): kept, and shown to nobody. NULL = none. */
	const json_t *notes;
	bool is_persistent;
	bool auto_resumes;     /* a call to a paused one resumes it */
	bool counts_paused;    /* its lifetime runs on while it is paused */
	bool ends_with_caller; /* it does not survive the gateway, whose death ends all callers */
	const struct idempotency_key *idempotency_key; /* idempotency key, or NULL */
	bool is_own; /* the daemon's own work: a jail by default, even if clients may have none */
	const char *language;    /* that it must have, if no template is named; or NULL */
	const char *engine;      /* "auto", "jail", "vm" */
	const char *min_grade;   /* NULL, "process", "emulated", "hardware" */
	sandbox_made_fn on_made; /* called in its last step but one, not for a spare; or NULL */
	void *made_arg;
};

/* s and err: exactly one is NULL. */
typedef void (*sandbox_done_fn)(struct sandbox *s, const struct err *err, void *arg);

/* Checks the spec, records it, asks the broker. done is called from the loop, never from inside
 * this call. */
must_check int sandbox_create(struct fleet *fleet, const char *project_id,
                              const struct sandbox_spec *spec, sandbox_done_fn done, void *arg,
                              struct err *err);
/* Ends it; done is called when every host object is gone (also if it was stopping already). A
 * stopped one is forgotten. done may be NULL. */
void sandbox_delete(struct sandbox *s, enum end_cause cause, sandbox_done_fn done, void *arg);
void sandbox_await_end(struct sandbox *s, sandbox_done_fn done, void *arg); /* however it comes */
/*
 * For the three below, done is called as in create, with an err on failure.
 *
 * Freezes all its processes in memory; neither of its clocks runs meanwhile.
 */
must_check int sandbox_pause(struct sandbox *s, sandbox_done_fn done, void *arg, struct err *err);
/* Where to, and how. */
enum pause_place {
	PAUSE_ANYWHERE, /* to disk if possible, else in memory */
	PAUSE_IN_MEMORY,
	PAUSE_ON_DISK, /* refused if not possible */
};
struct pause_wish {
	enum pause_place place;
	bool closes_connections; /* to disk: closes open ones; else they prevent it */
	enum end_cause cause;    /* END_NONE: somebody asked for it */
};
/* To disk: done is called when its processes, their memory and its files are on disk, and nothing
 * of it is in memory any more. It survives the daemon and a reboot. */
must_check int sandbox_pause_as(struct sandbox *s, const struct pause_wish *wish,
                                sandbox_done_fn done, void *arg, struct err *err);
/* Ends its processes. The files of a persistent sandbox stay; any other has ended with this. */
must_check int sandbox_stop(struct sandbox *s, sandbox_done_fn done, void *arg, struct err *err);
/* Lets a paused sandbox go on, starts a stopped persistent one over its files, or waits for one
 * that is about to run. done is called when it runs. */
must_check int sandbox_resume(struct sandbox *s, sandbox_done_fn done, void *arg, struct err *err);
/* The same, but a sandbox that is paused on disk is started over its files: its processes are
 * lost. */
must_check int sandbox_resume_cold(struct sandbox *s, sandbox_done_fn done, void *arg,
                                   struct err *err);
/* Whether sandbox_resume() has something to do. */
bool sandbox_is_resting(const struct sandbox *s);
/* Whether a call to it resumes it first. Not if somebody asked to pause it in memory, unless it was
 * created with auto_resumes. */
bool sandbox_wakes_by_call(const struct sandbox *s);
must_check int sandbox_extend(struct sandbox *s, uint64_t ms, struct err *err);
void sandbox_touch(struct sandbox *s); /* somebody works with it: it is not idle */

/* Changes it while it runs, is paused, or is kept. done as in create. */
struct sandbox_patch {
	const char *name;   /* NULL = keep; "" = none */
	const json_t *tags; /* NULL = keep */
	const json_t *env;  /* of execs from now on; NULL = keep */
	bool has_timeout;
	uint64_t timeout_ms;
	bool has_idle_timeout;
	uint64_t idle_timeout_ms; /* 0 = none */
	const char *on_timeout;   /* NULL = keep */
	const char *on_idle;      /* NULL = keep */
	bool has_auto_resume;
	bool auto_resumes;
	bool has_counts_paused;
	bool counts_paused;
	bool has_limits;
	struct guest_limits limits; /* 0 = keep */
	struct exec_limits exec_limits;
};
must_check int sandbox_update(struct sandbox *s, const struct sandbox_patch *patch,
                              sandbox_done_fn done, void *arg, struct err *err);

/* What it has used since it was created, and what it holds now. */
struct sandbox_figures {
	char id[ID_SIZE];
	struct usage total;
	bool is_live; /* now is known: it runs */
	struct guest_usage now;
	uint64_t at_us; /* wall clock */
};
/* Called from the loop. Exactly one of f and err is NULL; s is NULL if it was forgotten
 * meanwhile. */
typedef void (*sandbox_usage_fn)(struct sandbox *s, const struct sandbox_figures *f,
                                 const struct err *err, void *arg);
must_check int sandbox_usage(struct sandbox *s, sandbox_usage_fn fn, void *arg, struct err *err);
/* The figures of the last reading, which is up to a period ago; all 0 without a meter. */
void sandbox_latest(const struct sandbox *s, struct sandbox_figures *ret);
struct sandbox_sample { /* a reading */
	uint64_t at_us; /* wall clock */
	uint64_t cpu_ns, memory_bytes, disk_bytes, pids;
	uint64_t network_in_bytes, network_out_bytes; /* since it was created, as cpu_ns */
};
/* The last readings since this daemon's start, the oldest first. */
size_t sandbox_n_samples(const struct sandbox *s);
const struct sandbox_sample *sandbox_sample_at(const struct sandbox *s, size_t i); /* borrowed */
/* The usage of a forgotten sandbox. 1: *ret is set; 0: its usage is not kept (any more). */
must_check int sandbox_forgotten_usage(struct fleet *fleet, const char *project_id, const char *id,
                                       struct sandbox_figures *ret, struct err *err);
/* Counts bytes between it and the network. */
void sandbox_count_network(struct sandbox *s, uint64_t in_bytes, uint64_t out_bytes);

struct sandbox_facts {    /* what clients see, for the other products' APIs; borrowed */
	const char *name; /* "" = none */
	const char *template;
	const char *snapshot_id; /* "" = none */
	const json_t *tags, *env;
	struct guest_limits limits;
	uint64_t created_us, expires_us; /* wall clock; 0 = never */
	uint64_t timeout_ms;
	enum timeout_action on_timeout;
	bool is_persistent, auto_resumes;
};
void sandbox_facts(const struct sandbox *s, struct sandbox_facts *ret);
/* Fails with ERR_FENCED while another node may run it. */
must_check int sandbox_check_fence(const struct sandbox *s, struct err *err);
/* Whether it must survive a reboot. */
bool sandbox_is_durable(const struct sandbox *s);
const char *sandbox_id(const struct sandbox *s);
const json_t *sandbox_notes(const struct sandbox *s); /* borrowed; NULL = it has none */
/* Replaces the notes; copied. */
must_check int sandbox_set_notes(struct sandbox *s, const json_t *notes, struct err *err);
enum sandbox_state sandbox_state(const struct sandbox *s);
const char *sandbox_project_id(const struct sandbox *s);
const char *sandbox_key_id(const struct sandbox *s); /* that it was created with; "" = none */
uint32_t sandbox_engine(const struct sandbox *s);    /* its number */
const char *sandbox_user(const struct sandbox *s);   /* of its programs; "": the default */
const char *sandbox_cwd(const struct sandbox *s);    /* likewise; "": the user's home */
must_check int sandbox_set_user(struct sandbox *s, const char *user, struct err *err);
struct fleet *sandbox_fleet(const struct sandbox *s);
/* {id, name, state, template, tags, env_names?, limits, timeout_ms, created_us, expires_us, ended,
 * isolation, …} as in api/openapi.yaml */
void sandbox_to_json(const struct sandbox *s, struct json_writer *w, const char *name);
void sandbox_put_fields(const struct sandbox *s, struct json_writer *w); /* into an open object */
void isolation_to_json(const struct isolation *i, struct json_writer *w,
                       const char *name); /* null while it is not known */
