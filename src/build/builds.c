// SPDX-License-Identifier: Apache-2.0
/*
 * All builds of this daemon: which wait, which run, which are remembered. The oldest ended builds
 * are forgotten, with their logs.
 */
#include "build/build_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "build/bases.h"
#include "build/parcel.h"
#include "build/recipe/recipe.h"
#include "build/set.h"
#include "build/shared/generations.h"
#include "sandbox/storage/template.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

DEFINE_FREEP(struct builds, builds_close)

static const char *const state_names[] = {
	[BUILD_QUEUED] = "queued", [BUILD_RUNNING] = "running",     [BUILD_READY] = "ready",
	[BUILD_FAILED] = "failed", [BUILD_CANCELLED] = "cancelled",
};
static_assert(ARRAY_SIZE(state_names) == BUILD_STATE_COUNT, "a state has no name");

const char *build_state_name(enum build_state state)
{
	return state_names[state];
}

struct build *build_new(struct builds *bs, const char *id)
{
	struct build *b = xnew0(struct build);

	b->owner = bs;
	(void)snprintf(b->id, sizeof(b->id), "%s", id);
	list_init(&b->watches);
	list_init(&b->watch.link);
	list_append(&bs->all, &b->link);
	bs->n++;
	return b;
}

void build_free(struct build *b)
{
	exec_watch_remove(&b->watch);
	bases_leave(b);
	loop_timer_free(b->retry);
	loop_timer_free(b->unlock);
	list_remove(&b->link);
	b->owner->n--;
	json_decref(b->recipe);
	json_decref(b->packages);
	json_decref(b->languages);
	json_decref(b->stage_images);
	json_decref(b->contents);
	report_done(&b->report);
	if (b->log)
		spool_free(b->log, /* unlink_file= */ false);
	free(b);
}

static int add_row(const struct build_row *row, void *arg)
{
	struct build *b;

	if (build_load(arg, row, &b) < 0)
		log_warn("build.unreadable", "id=%s message='cannot be read'", row->id);
	return 0;
}

static int open_log_dir(struct builds *bs, struct err *err)
{
	const char *dir = bs->config.log_dir;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", dir);
	bs->log_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return bs->log_fd < 0 ? err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", dir) : 0;
}

/* Bounds for running calls of each kind: for all projects, and for each whatever the others do. */
static void make_rooms(struct builds *bs)
{
	bs->import_room = (struct fair_room){.most = 4, .always = 1};
	bs->pull_room = (struct fair_room){.most = 1024, .always = 4};
	bs->export_room = (struct fair_room){.most = 4, .always = 1};
	bs->view_room = (struct fair_room){.most = 8, .always = 1};
	bs->volume_room = (struct fair_room){.most = 64, .always = 4};
	bs->parcel_room =
		(struct fair_room){.most = 2 * PARCEL_BYTES_MAX, .always = PARCEL_BYTES_MAX};
}

int builds_open(const struct builds_config *config, struct builds **ret, struct err *err)
{
	auto_call(builds_closep) struct builds *bs = xnew0(struct builds);
	int r;

	bs->config = *config;
	bs->log_fd = -1;
	list_init(&bs->all);
	list_init(&bs->cache);
	list_init(&bs->imports);
	list_init(&bs->image_pulls);
	list_init(&bs->exports);
	list_init(&bs->views);
	list_init(&bs->vm_templates);
	list_init(&bs->parcels);
	make_rooms(bs);
	bs->next_import = loop_timer_new(config->loop, imports_begin_queued, bs);
	shared_snapshots_open(bs);
	bs->generations = generations_new(bs);
	r = open_log_dir(bs, err);
	if (r == 0)
		r = store_builds_open(config->store, &bs->rows, err);
	if (r == 0)
		r = cache_load(bs, err);
	if (r == 0)
		r = store_builds_each(bs->rows, add_row, bs, err);
	if (r < 0)
		return r;
	parcels_settle(bs);
	*ret = take_ptr(bs);
	return 0;
}

void builds_close(struct builds *bs)
{
	if (!bs)
		return;
	vm_templates_close(bs);
	imports_close(bs);
	image_pulls_close(bs);
	exports_close(bs);
	generations_free(bs->generations);
	shared_snapshots_close(bs);
	views_close(bs);
	parcels_close(bs);
	loop_timer_free(bs->next_import);
	fair_room_done(&bs->import_room);
	fair_room_done(&bs->pull_room);
	fair_room_done(&bs->export_room);
	fair_room_done(&bs->view_room);
	fair_room_done(&bs->volume_room);
	fair_room_done(&bs->parcel_room);
	list_for_each (&bs->all, struct build, b, link)
		build_free(b);
	cache_free(bs);
	store_builds_close(bs->rows);
	if (bs->log_fd >= 0)
		(void)close(bs->log_fd);
	free(bs);
}

const char *build_name(const struct build *b)
{
	return json_string_value(json_object_get(b->recipe, "name"));
}

bool build_is_set(const struct build *b)
{
	return json_object_get(b->recipe, "set") != NULL;
}

const json_t *build_recipe(const struct build *b)
{
	return b->recipe;
}

const struct err *build_error(const struct build *b)
{
	return &b->error;
}

enum build_state build_state(const struct build *b)
{
	return b->state;
}

bool build_is_over(const struct build *b)
{
	return b->state > BUILD_RUNNING;
}

struct spool *build_log(struct build *b)
{
	uint64_t offset;
	struct err err;

	if (b->log ||
	    spool_reopen(b->owner->log_fd, b->id, LOG_BYTES_MAX, &b->log, &offset, &err) == 0)
		return b->log;
	log_error("build.log_lost", "file='gateway/builds/%s' error='%s'", b->id, err.message);
	if (spool_new(b->owner->log_fd, b->id, LOG_BYTES_MAX, &b->log, &err) < 0)
		abort(); /* it does no I/O */
	return b->log;
}

/* Counts running builds. A build that waits for another one does not count, or both would wait for
 * ever. Package sets are counted apart, since a create waits for them: they must not queue behind
 * whole templates. project_id NULL: of all. */
static size_t count_running(const struct builds *bs, const char *project_id, bool is_set)
{
	size_t n = 0;

	list_for_each (&bs->all, struct build, b, link)
		n += b->state == BUILD_RUNNING && b->phase != PHASE_WAITING &&
		     build_is_set(b) == is_set &&
		     (!project_id || strcmp(b->project_id, project_id) == 0);
	return n;
}

/* The next to start: the oldest one of the project with the fewest running builds. */
static struct build *find_next(const struct builds *bs, bool is_set)
{
	size_t fewest = BUILDS_RUNNING_OWN;
	struct build *next = NULL;

	if (count_running(bs, NULL, is_set) >= BUILDS_RUNNING_MAX)
		return NULL;
	list_for_each (&bs->all, struct build, b, link) {
		size_t n = b->state == BUILD_QUEUED && build_is_set(b) == is_set
		                   ? count_running(bs, b->project_id, is_set)
		                   : BUILDS_RUNNING_OWN;

		if (n >= fewest)
			continue;
		fewest = n;
		next = b;
	}
	return next;
}

static void start_some(struct builds *bs)
{
	struct build *b;

	for (int is_set = 0; is_set <= 1; is_set++)
		while ((b = find_next(bs, is_set)))
			job_begin(b);
}

static void on_turn_end(struct loop *loop, void *arg)
{
	(void)loop;
	start_some(arg);
}

static void forget(struct build *b)
{
	struct err err;

	if (store_builds_remove(b->owner->rows, b->id, &err) < 0) {
		log_warn("build.not_forgotten", "id=%s why='%s'", b->id, err.message);
		return;
	}
	list_for_each (&b->watches, struct build_watch, w, link) {
		build_watch_remove(w);
		w->fn(NULL, w->arg);
	}
	spool_free(build_log(b), /* unlink_file= */ true);
	b->log = NULL;
	build_free(b);
}

/* Counts ended builds. project_id NULL: of all. */
static size_t count_kept(const struct builds *bs, const char *project_id)
{
	size_t n = 0;

	list_for_each (&bs->all, struct build, b, link)
		n += build_is_over(b) && (!project_id || strcmp(b->project_id, project_id) == 0);
	return n;
}

/* The next to be forgotten: the oldest one of the project with the most kept builds. */
static struct build *find_oldest(const struct builds *bs)
{
	struct build *oldest = NULL;
	size_t most = 0;

	list_for_each (&bs->all, struct build, b, link) {
		size_t n = build_is_over(b) && !b->is_turn_due ? count_kept(bs, b->project_id) : 0;

		if (n <= most)
			continue;
		most = n;
		oldest = b;
	}
	return oldest;
}

static void trim(struct builds *bs)
{
	struct build *b;

	for (size_t n = count_kept(bs, NULL); n > BUILDS_KEPT && (b = find_oldest(bs)); n--)
		forget(b);
}

void builds_on_ended(struct build *b)
{
	struct builds *bs = b->owner;

	build_tell(b);
	list_for_each (&bs->all, struct build, other, link)
		if (other->state == BUILD_RUNNING && other->phase == PHASE_WAITING)
			job_on_template(other);
	loop_defer(bs->config.loop, on_turn_end, bs);
}

/* Whether a build knows the sandbox. An earlier gateway may have died before it recorded one. */
static bool is_known(struct builds *bs, const char *sandbox_id)
{
	list_for_each (&bs->all, struct build, b, link)
		if (b->state == BUILD_RUNNING && strcmp(b->sandbox_id, sandbox_id) == 0)
			return true;
	return false;
}

static void delete_stray(struct sandbox *s, void *arg)
{
	if (!is_known(arg, sandbox_id(s)))
		sandbox_delete(s, END_DELETED, NULL, NULL);
}

void builds_resume(struct builds *bs)
{
	const struct sandbox_filter filter = {.project_id = BUILD_PROJECT, .limit = BUILDS_MAX};
	bool more;

	if (bs->is_resumed)
		return;
	bs->is_resumed = true;
	(void)fleet_list(bs->config.fleet, &filter, delete_stray, bs, &more);
	list_for_each (&bs->all, struct build, b, link)
		if (b->state == BUILD_RUNNING)
			job_rejoin(b);
	trim(bs);
	set_trim(bs, NULL);
	start_some(bs);
	shared_snapshots_begin(bs);
	generations_begin(bs->generations);
}

bool builds_need(const struct digest *image, void *arg)
{
	const struct builds *bs = arg;

	if (cache_has(bs, image) || bases_need(bs, image))
		return true;
	list_for_each (&bs->all, struct build, b, link)
		if (!build_is_over(b) && digest_equal(&b->image, image))
			return true;
	return false;
}

struct build *builds_find_unfinished(struct builds *bs, const char *project_id, const char *name)
{
	list_for_each (&bs->all, struct build, b, link)
		if (!build_is_over(b) && strcmp(b->project_id, project_id) == 0 &&
		    strcmp(build_name(b), name) == 0)
			return b;
	return NULL;
}

static int check_room(struct builds *bs, const char *project_id, struct err *err)
{
	size_t n = 0;

	trim(bs);
	list_for_each (&bs->all, struct build, b, link)
		n += !build_is_over(b) && strcmp(b->project_id, project_id) == 0;
	if (bs->n >= BUILDS_MAX && n > 0)
		return err_set(err, ERR_LIMIT, 0, "%d builds wait already", BUILDS_MAX);
	if (n >= BUILDS_PROJECT_MAX)
		return err_set(err, ERR_LIMIT, 0, "%d builds of this project wait already",
		               BUILDS_PROJECT_MAX);
	return 0;
}

/* Builds run in jails: if clients may not have jails, they cannot get one through a recipe
 * either. */
static int check_recipe(const struct builds *bs, const json_t *recipe, struct err *err)
{
	if (!fleet_forbids(bs->config.fleet, ENGINE_BASE) || recipe_is_shipped(recipe))
		return 0;
	(void)err_set(err, ERR_FORBIDDEN, 0,
	              "this daemon's settings forbid jails, in which recipes and packages run");
	return err_hint(err, "build what comes with cloche, or import an image; the setting is "
	                     "`engines`");
}

int build_start(struct builds *bs, const struct build_spec *spec, struct build **ret,
                struct err *err)
{
	char id[ID_SIZE];
	struct build *b;
	int r = check_room(bs, spec->project_id, err);

	if (r == 0)
		r = fleet_check_disk(bs->config.fleet, err);
	if (r == 0)
		r = check_recipe(bs, spec->recipe, err);
	if (r < 0)
		return r;
	id_make_tagged(id, "bld");
	b = build_new(bs, id);
	(void)snprintf(b->project_id, sizeof(b->project_id), "%s", spec->project_id);
	b->recipe = json_deep_copy(spec->recipe);
	b->packages = json_array();
	b->languages = json_object();
	b->is_shared = spec->is_shared;
	b->is_fresh = spec->is_fresh;
	b->retries = spec->retries;
	b->tries = 1;
	b->is_cached = true;
	b->created_us = clock_wall_us();
	r = build_save(b, err);
	if (r < 0) {
		build_free(b);
		return r;
	}
	loop_defer(bs->config.loop, on_turn_end, bs);
	*ret = b;
	return 0;
}

static bool is_missing(struct builds *bs, const char *project_id, const char *name)
{
	const struct template *t = template_find(bs->config.fleet, project_id, name);

	return !(t && template_is_shared(t)) && !builds_find_unfinished(bs, project_id, name);
}

void builds_begin_missing(struct builds *bs, const char *project_id, char *const *names)
{
	for (; names && *names; names++) {
		const char *text = recipe_shipped(*names);
		auto_json json_t *recipe = NULL;
		struct build *b;
		struct err err = {0};
		int r;

		if (!is_missing(bs, project_id, *names))
			continue;
		r = recipe_parse(*names, text, strlen(text), &recipe, &err);
		if (r == 0)
			r = build_start(bs,
			                &(struct build_spec){.project_id = project_id,
			                                     .recipe = recipe,
			                                     .is_shared = true,
			                                     .retries = BUILD_RETRIES_MAX},
			                &b, &err);
		if (r < 0)
			log_warn("build.not_begun", "name=%s error='%s'", *names, err.message);
	}
}

struct build *build_find(struct builds *bs, const char *project_id, const char *id)
{
	list_for_each (&bs->all, struct build, b, link)
		if (strcmp(b->id, id) == 0 && strcmp(b->project_id, project_id) == 0)
			return b;
	return NULL;
}

void builds_each(struct builds *bs, const char *project_id, void (*fn)(struct build *b, void *arg),
                 void *arg)
{
	for (struct list *l = bs->all.prev; l != &bs->all; l = l->prev) {
		struct build *b = list_entry(l, struct build, link);

		if (strcmp(b->project_id, project_id) == 0)
			fn(b, arg);
	}
}

void build_cancel(struct build *b)
{
	if (!build_is_over(b))
		job_cancel(b);
}
