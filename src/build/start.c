// SPDX-License-Identifier: Apache-2.0
/*
 * Finds what a build starts from: a suite, for which the host must have archives, or another
 * template. If the template does not exist yet, the build waits for it if it is being built; if its
 * recipe comes with cloche, it is built first.
 */
#include "base/units.h"
#include "build/bases.h"
#include "build/part.h"
#include "build/plan.h"

#include "build/recipe/recipe.h"
#include "build/recipe/word.h"
#include "sandbox/storage/image.h"
#include "sandbox/storage/template.h"

#include <string.h>
#include <sys/statvfs.h>

#define ROOM_BYTES (2048 * MIB) /* on the host's disk, before anything is fetched */

/* Whether the other build waits, directly or indirectly, for this one. */
static bool is_circle(const struct build *b, const struct build *other)
{
	for (unsigned i = 0; other && i < BUILDS_MAX; i++) {
		if (other == b)
			return true;
		if (other->phase != PHASE_WAITING)
			return false;
		other = builds_find_unfinished(
			b->owner, other->project_id,
			json_string_value(json_object_get(other->recipe, "from")));
	}
	return other != NULL;
}

/* A manifest may come from an imported image, and the suite becomes part of the sources, whose
 * names builds may reach. So a value that is not a valid suite is ignored. */
static void take_suite(struct build *b, const json_t *manifest)
{
	const char *suite = json_string_value(json_object_get(manifest, "suite"));
	bool is_suite = suite && word_is_suite(suite);

	(void)snprintf(b->suite, sizeof(b->suite), "%s", is_suite ? suite : "");
}

/* Finds the template that it starts from, or the build that makes it; 1 = it has to wait. */
static int find_template(struct build *b, struct err *err)
{
	const char *name = json_string_value(json_object_get(b->recipe, "from"));
	const char *text = recipe_shipped(name);
	auto_json json_t *recipe = NULL;
	const struct template *found = template_find(b->owner->config.fleet, b->project_id, name);
	struct build *other;
	int r;

	/* If the template is being rebuilt, wait for that: it is about to be replaced. */
	other = builds_find_unfinished(b->owner, b->project_id, name);
	if (other && !is_circle(b, other))
		return 1;
	/* Else a recipe of ours would run a client's own image in a jail. */
	if (found && fleet_forbids(b->owner->config.fleet, ENGINE_BASE) &&
	    !template_is_shared(found))
		return err_set(err, ERR_FORBIDDEN, 0,
		               "this daemon's settings forbid jails, in which builds run: "
		               "'%s' has to be a shared template",
		               name);
	if (found) {
		b->image = *template_image(found);
		take_suite(b, template_manifest(found));
		return 0;
	}
	if (other)
		return err_field(err, "from", "'%s' starts from this one", name);
	if (!text || b->phase == PHASE_WAITING)
		return err_field(err, "from",
		                 text ? "the template '%s' could not be built"
		                      : "there is no template '%s', and no recipe "
		                        "for it comes with cloche",
		                 name);
	r = recipe_parse(name, text, strlen(text), &recipe, err);
	if (r < 0)
		return r;
	r = build_start(b->owner,
	                &(struct build_spec){.project_id = b->project_id,
	                                     .recipe = recipe,
	                                     .is_shared = b->is_shared,
	                                     .is_fresh = b->is_fresh,
	                                     .retries = b->retries},
	                &other, err);
	return r < 0 ? r : 1;
}

/* A package set uses the image that its template had when the set was asked for. */
static int find_image(struct build *b, struct err *err)
{
	const json_t *set = json_object_get(b->recipe, "set");

	if (digest_parse(json_string_value(json_object_get(set, "image")), &b->image) < 0 ||
	    !image_has(b->owner->config.fleet, &b->image, NULL))
		return err_set(err, ERR_GONE, 0, "the template '%s' was removed meanwhile",
		               json_string_value(json_object_get(b->recipe, "from")));
	take_suite(b, set);
	return 0;
}

static int find_start(struct build *b, struct err *err)
{
	auto_free char *sources = NULL;
	const char *suite;
	int r = 0;

	if (bases_are_due(b))
		r = bases_find(b, err);
	if (r != 0)
		return r;
	suite = recipe_suite(b->recipe); /* of what it is now */
	if (part_is_any(b)) {
		b->archive_date = b->created_us / 1000000; /* no file in it is newer */
		if (part_count(b) == 0)                    /* the template is what it starts from */
			(void)part_leave(b);
		return 0;
	}
	if (build_is_set(b))
		r = find_image(b, err);
	else if (suite)
		(void)snprintf(b->suite, sizeof(b->suite), "%s", suite);
	else
		r = find_template(b, err);
	if (r != 0 || !b->suite[0])
		return r;
	sources = plan_sources(&b->owner->config, b->suite);
	if (sources[0])
		return 0;
	(void)err_set(err, ERR_UNAVAILABLE, 0,
	              "the host's apt has no archive that could have Debian's %s", b->suite);
	return err_hint(err, "name a file with some as templates.sources");
}

static int check_room(const struct build *b, struct err *err)
{
	struct statvfs st;
	uint64_t left;

	if (fstatvfs(b->owner->log_fd, &st) < 0)
		return 0;
	left = (uint64_t)st.f_bavail * st.f_frsize;
	if (left >= ROOM_BYTES)
		return 0;
	(void)err_set(err, ERR_HOST_DISK_FULL, 0,
	              "the host's disk has %llu MiB left, a build wants %llu",
	              (unsigned long long)(left / MIB), (unsigned long long)(ROOM_BYTES / MIB));
	return err_hint(err, "remove templates or sandboxes that nobody needs");
}

int start_find(struct build *b, struct err *err)
{
	int r = check_room(b, err);

	return r < 0 ? r : find_start(b, err);
}
