// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Builds: they make templates from recipes.
 *
 *	queued --> running --> ready
 *	   +----------+------> failed, cancelled
 *
 * A build is a series of steps. Each runs in its own sandbox behind the network wall, never on the
 * host:
 *
 *	state      on `host`: what the archive is at this moment, as a hash
 *	registries on `host`: where npm and pip have packages from, if the operator did not say
 *	bootstrap  on `host`: Debian's essential packages, unpacked
 *	packages   on what came out: configured by itself, and the recipe's packages
 *	extras     on that: npm, pip, files, commands
 *	checks     on the template, before anybody can name it
 *
 * The result of a step is sealed into an image, and found again by a key over all that it depends
 * on: script, inputs, the image before, the archive's state. So a repeated build is a look-up, an
 * interrupted one continues after its last complete step, and two builds that need the same step
 * share it.
 *
 * A failed step ends the build, unless it has retries: then the build starts again after a pause,
 * with the archive's state of that moment, and finds its complete steps in the cache.
 *
 * If the gateway dies, a build loses nothing: the sandbox and its exec go on, and the next gateway
 * continues reading. The sandboxes belong to a project that has no keys (BUILD_PROJECT), so nobody
 * can reach into a build, and no quota is charged.
 */
#include "base/digest.h"
#include "base/list.h"
#include "build/image/registries.h"
#include "sandbox/fleet/fleet.h"

#define BUILD_PROJECT     "prj_builds"
#define BUILD_RETRIES_MAX 5

struct builds;
struct build;
struct template;

enum build_state {
	BUILD_QUEUED,
	BUILD_RUNNING,
	BUILD_READY,
	BUILD_FAILED,
	BUILD_CANCELLED,
	BUILD_STATE_COUNT
};
const char *build_state_name(enum build_state state);

struct builds_config {
	struct loop *loop;
	struct fleet *fleet;
	struct store *store;  /* to be closed after the builds */
	const char *log_dir;  /* the gateway's; made if it does not exist */
	char **sources;       /* Debian's archives (build/plan.h); NULL-terminated; or NULL */
	const char *codename; /* of the host; or NULL */
	const char *npm_registry, *pip_index; /* URLs, or NULL: their own defaults */
	char **names; /* that builds may reach on private addresses too; or NULL */
	struct registries_config registries; /* that images are pulled from */
	/* Checks the manifest of an image that somebody else has made. */
	int (*check_manifest)(const json_t *manifest, struct err *err);
	/* Makes the recipe of another wire's build once the image that it starts from is here, out
	 * of the one that was started (build/bases.h). The caller owns it. */
	int (*plan_foreign)(const json_t *started, const struct template *from, json_t **ret,
	                    struct err *err);
	uint64_t cache_bytes_max;
	uint64_t sets_bytes_max;      /* of packages (build/set.h) */
	uint64_t generation_every_ms; /* of sandboxes that outlive their node (shared/generations.h)
	                               */
};

/* Loads the rows; builds go on with builds_resume(), when the fleet is ready. */
must_check int builds_open(const struct builds_config *config, struct builds **ret,
                           struct err *err);
void builds_resume(struct builds *bs);
/* Starts builds of those of cloche's own recipes (names, NULL-terminated, or NULL) that have
 * neither a shared template nor a build under way. Called after builds_resume(). */
void builds_begin_missing(struct builds *bs, const char *project_id, char *const *names);
/* As package_hosts of struct fleet_config: where builds have packages of pip, npm and apt from. */
bool builds_package_hosts(const struct builds *bs, const char *word, json_t *names,
                          json_t *addresses, json_t *ranges);
/* Whether the image is the result of a step that may be used again. arg: struct builds. */
bool builds_need(const struct digest *image, void *arg);
void builds_close(struct builds *bs); /* NULL is fine */

struct build_spec { /* borrowed for the call */
	const char *project_id;
	const json_t *recipe; /* as recipe_parse() gives it */
	bool is_shared;       /* the template is everybody's */
	bool is_fresh;        /* nothing from the cache */
	uint32_t retries;     /* how often it is started again when a step fails */
};
must_check int build_start(struct builds *bs, const struct build_spec *spec, struct build **ret,
                           struct err *err);
struct build *build_find(struct builds *bs, const char *project_id, const char *id); /* or NULL */
/* Newest first. */
void builds_each(struct builds *bs, const char *project_id, void (*fn)(struct build *b, void *arg),
                 void *arg);
/* Ends it if it has not ended; watchers see when that is done. */
void build_cancel(struct build *b);

enum build_state build_state(const struct build *b);
bool build_is_over(const struct build *b);
const json_t *build_recipe(const struct build *b);    /* borrowed */
const struct err *build_error(const struct build *b); /* if it has failed */
struct spool *build_log(struct build *b);             /* borrowed */
void build_to_json(const struct build *b, struct json_writer *w, const char *name);

/* A watcher is called from the loop when there is more of the log, or a new state. */
struct build_watch {
	struct list link;
	void (*fn)(struct build *b, void *arg); /* b is NULL when it is forgotten */
	void *arg;
};
void build_watch_add(struct build *b, struct build_watch *w);
void build_watch_remove(struct build_watch *w); /* twice is fine */
