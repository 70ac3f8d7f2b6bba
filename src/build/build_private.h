// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to the files of this directory. */
#include "base/fair_room.h"
#include "base/id.h"
#include "base/remaining.h"
#include "build/build.h"
#include "build/recipe/report.h"
#include "sandbox/exec/exec.h"
#include "store/tables/builds.h"

#define BUILDS_RUNNING_MAX 4   /* at once, and as many sets of packages; others wait */
#define BUILDS_RUNNING_OWN 2   /* of these, of one project */
#define BUILDS_PROJECT_MAX 32  /* of a project that have not ended */
#define BUILDS_KEPT        50  /* that have ended, with their logs */
#define BUILDS_MAX         200 /* of all projects; each may have one whatever the others have */
#define LOG_BYTES_MAX      (UINT64_C(4) << 20)

enum step {
	STEP_STATE,
	STEP_REGISTRIES,
	STEP_BOOTSTRAP,
	STEP_KERNEL,
	STEP_PACKAGES,
	STEP_EXTRAS,
	STEP_CONTEXT, /* of a Dockerfile: what its copies contain */
	STEP_CARRY,   /* what its next part copies from another stage, one after the other */
	STEP_PART,    /* one of a Dockerfile's, and then the next */
	STEP_CHECKS,
	STEP_COUNT,
};

/* What a running build is doing; it does one thing at a time. */
enum phase {
	PHASE_NONE,
	PHASE_WAITING, /* for the template that it starts from */
	PHASE_CREATING,
	PHASE_FILLING, /* with its parcels */
	PHASE_RUNNING,
	PHASE_CARRYING, /* a parcel out of it */
	PHASE_SEALING,
	PHASE_DELETING,
	PHASE_PAUSING, /* before it is tried again */
	PHASE_LOCKED,  /* out of a cache that another build uses */
};

struct builds {
	struct builds_config config;
	struct store_builds *rows;
	int log_fd;
	struct list all; /* in order of creation */
	size_t n;
	struct list cache; /* of struct cached, the least recently used first */
	struct list imports, image_pulls, exports, views, vm_templates;
	struct fair_room import_room, export_room, view_room, volume_room; /* in calls */
	struct fair_room pull_room; /* in pulls that wait for the import_room */
	struct loop_timer *next_import;
	struct list parcels;          /* that are expected */
	struct fair_room parcel_room; /* bytes of incoming parcels */
	struct registries learnt;     /* by the last build that had to ask */
	bool is_resumed;
	struct shared_snapshots *shared;
	struct generations *generations;
};

struct build {
	struct builds *owner;
	struct list link;
	char id[ID_SIZE], project_id[ID_SIZE];
	json_t *recipe;
	bool is_shared, is_fresh;
	enum build_state state;
	uint64_t created_us, started_us, ended_us;
	/* its way */
	enum step step;
	enum phase phase;
	struct digest image;    /* what the step before has left; zero = nothing yet */
	size_t part;            /* of a Dockerfile: which one */
	size_t carried;         /* of the part: how many of its carries are here */
	json_t *stage_images;   /* number of a stage that is complete -> its image; or NULL */
	json_t *contents;       /* number of a COPY -> hash of what it takes; or NULL */
	char suite[33];         /* Debian's; "" = not known */
	char archive_state[65]; /* by the first step */
	uint64_t archive_date;
	uint32_t attempts;            /* of this step: a gateway that dies begins one */
	uint32_t retries, tries;      /* how many are left, and how often it was started */
	struct loop_timer *retry;     /* or NULL */
	bool is_cancelled, is_cached; /* cached: every step was */
	struct err error;             /* why it failed or will */
	json_t *packages, *languages; /* of the template */
	/* what runs */
	char sandbox_id[ID_SIZE], exec_id[ID_SIZE];
	struct exec_watch watch;
	uint64_t read_seq;
	struct report report;
	struct remaining remaining; /* as people are told, look by look */
	uint64_t seen_us; /* since then, and from so far on, this daemon has seen it go; 0: not yet
	                   */
	unsigned seen_permille;
	uint64_t log_seq;        /* the log's last line when the exec began */
	uint64_t n_known;        /* lines of the exec that an earlier gateway has put in the log */
	struct image_seal *seal; /* while it is under way */
	struct fill *fill;       /* likewise */
	struct carry *carry;     /* likewise */
	char cache_volume[ID_SIZE]; /* of its project, for the part that runs; "" = none */
	bool is_cache_full;
	struct loop_timer *unlock;                        /* to look for it again, or NULL */
	void (*on_caches)(struct build *b, bool is_ours); /* while they are looked for */
	struct base_pull *pulling; /* an image that it starts from; likewise */
	struct spool *log;
	struct list watches;
	bool is_turn_due;
};

/* job.c */
void job_begin(struct build *b);  /* a queued one starts */
void job_rejoin(struct build *b); /* a running one goes on after a restart */
void job_cancel(struct build *b);
void job_on_template(struct build *b); /* the build that it waited for has ended */
/* The image that it waited for is here; or why not. */
void job_on_base(struct build *b, const struct err *err);

/* plan.c, reach.c */
const char *plan_arch(void);       /* this machine's, as Debian and images name it */
json_t *plan_private_ranges(void); /* in which the operator's mirrors may lie */

/* start.c: sets its image and suite; 1 = it has to wait for another build. */
must_check int start_find(struct build *b, struct err *err);

/* builds.c */
struct build *build_new(struct builds *bs, const char *id); /* on the list; half-built */
void build_free(struct build *b);
void builds_on_ended(struct build *b); /* others may start */
struct build *builds_find_unfinished(struct builds *bs, const char *project_id, const char *name);
const char *build_name(const struct build *b); /* of its template */
bool build_is_set(const struct build *b);      /* of packages (build/set.h) */

/* tell.c */
void build_tell(struct build *b); /* those who watch it */
void build_say_line(struct build *b, const char *line, size_t len);
void build_say(struct build *b, const char *text);
void build_emit(const struct build *b, enum event_type type);

/* set.c */
struct template;
/* Removes sets that are not needed or too many; newest stays, or is NULL. */
void set_trim(struct builds *bs, const struct template *newest);

/* publish.c */
must_check int publish_build(struct build *b, struct err *err);

/* import.c */
struct import;
void import_free(struct import *im); /* on_end is not called */
void imports_close(struct builds *bs);
void imports_begin_queued(struct loop *loop, void *arg); /* of next_import */

/* image_find.c */
void image_pulls_close(struct builds *bs);

/* export.c */
struct export;
void export_free(struct export *ex); /* on_end is not called */
void exports_close(struct builds *bs);
void views_close(struct builds *bs);
void vm_templates_close(struct builds *bs);

/* shared/shared_snapshots.c */
void shared_snapshots_open(struct builds *bs);
void shared_snapshots_begin(struct builds *bs); /* the fleet is ready */
void shared_snapshots_close(struct builds *bs);

/* record.c */
must_check int build_save(const struct build *b, struct err *err);
must_check int build_load(struct builds *bs, const struct build_row *row, struct build **ret);

/* cache.c */
must_check int cache_load(struct builds *bs, struct err *err);
void cache_free(struct builds *bs);
bool cache_has(const struct builds *bs, const struct digest *image);
/* Looks up a key; it counts as used. The cache owns json. */
bool cache_find(struct builds *bs, const char *key, struct digest *ret_image,
                const json_t **ret_json);
void cache_put(struct builds *bs, const char *key, const struct digest *image, uint64_t bytes,
               json_t *json);
