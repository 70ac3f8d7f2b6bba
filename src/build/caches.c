// SPDX-License-Identifier: Apache-2.0
#include "build/caches.h"

#include "base/units.h"
#include "build/build_private.h"
#include "build/part.h"
#include "sandbox/storage/volume.h"

#include <string.h>

#define BYTES (2048 * MIB)

/* A part whose script may still use the volume. */
static bool is_in_use(const struct build *b)
{
	return b->state == BUILD_RUNNING && b->step == STEP_PART && b->cache_volume[0] &&
	       b->phase >= PHASE_CREATING && b->phase <= PHASE_RUNNING;
}

static bool shares_lock(const struct build *a, const struct build *b)
{
	size_t i, k;
	json_t *one, *other;

	json_array_foreach(part_caches(a), i, one)
	{
		json_array_foreach(part_caches(b), k, other)
		{
			if (json_equal(json_object_get(one, "key"),
			               json_object_get(other, "key")) &&
			    (json_is_true(json_object_get(one, "locked")) ||
			     json_is_true(json_object_get(other, "locked"))))
				return true;
		}
	}
	return false;
}

/* Another build of the project that uses the volume; with a lock in the way, or any. */
static bool has_rival(const struct build *b, bool is_locked)
{
	list_for_each (&b->owner->all, const struct build, other, link)
		if (other != b && strcmp(other->project_id, b->project_id) == 0 &&
		    is_in_use(other) && (!is_locked || shares_lock(b, other)))
			return true;
	return false;
}

static struct volume *find_volume(const struct build *b)
{
	return volume_find(b->owner->config.fleet, b->project_id, CACHES_VOLUME);
}

static void take(struct build *b, const struct volume *v)
{
	struct volume_facts facts;

	volume_facts(v, &facts);
	(void)snprintf(b->cache_volume, sizeof(b->cache_volume), "%s", facts.id);
	b->is_cache_full = facts.used_bytes > facts.bytes / 4 * 3 && !has_rival(b, false);
	if (b->is_cache_full)
		build_say(b, "the volume " CACHES_VOLUME " is nearly full, and is emptied");
}

static void go_without(struct build *b, const struct err *err)
{
	auto_free char *line = xasprintf(
		"caches begin empty, there is no volume " CACHES_VOLUME ": %s", err->message);

	build_say(b, line);
}

static void end(struct build *b, bool is_ours)
{
	const caches_done_fn done = b->on_caches;

	b->on_caches = NULL;
	done(b, is_ours);
}

static void on_made(struct volume *v, const struct err *err, void *arg)
{
	struct build *b = arg;

	if (v)
		take(b, v);
	else
		go_without(b, err);
	end(b, true);
}

static void on_measured(const struct err *err, void *arg)
{
	struct build *b = arg;
	struct volume *v = find_volume(b);
	const bool is_ours = !has_rival(b, true); /* one may have begun meanwhile */

	if (err)
		go_without(b, err);
	else if (v && is_ours)
		take(b, v);
	end(b, is_ours);
}

void caches_begin(struct build *b, caches_done_fn done)
{
	struct fleet *fleet = b->owner->config.fleet;
	struct err err = {0};
	int r;

	b->cache_volume[0] = '\0';
	b->is_cache_full = false;
	b->on_caches = done;
	if (json_array_size(part_caches(b)) == 0) {
		end(b, true);
		return;
	}
	if (has_rival(b, true)) {
		end(b, false);
		return;
	}
	if (find_volume(b))
		r = volume_measure_all(fleet, on_measured, b, &err);
	else
		r = volume_create(fleet, b->project_id,
		                  &(struct volume_wish){.name = CACHES_VOLUME, .bytes = BYTES},
		                  on_made, b, &err);
	if (r == 0)
		return;
	if (err.code == ERR_CONFLICT) { /* another build is making it */
		end(b, false);
		return;
	}
	go_without(b, &err);
	end(b, true);
}

void caches_put_env(const struct build *b, json_t *env)
{
	if (!b->cache_volume[0])
		return;
	(void)json_object_set_new(env, "CACHES", json_string(CACHES_DIR));
	(void)json_object_set_new(env, "IS_FULL", json_string(b->is_cache_full ? "1" : ""));
}
