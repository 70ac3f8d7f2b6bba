// SPDX-License-Identifier: Apache-2.0
/*
 * Each step ends in a call from the loop. Every end, also a failure, goes through import_end(),
 * which first deletes the sandbox and then reports. So a failed import leaves nothing.
 *
 * Few imports are under way at once, since unpacking and sealing take the whole machine. A pull
 * that finds no room waits for the end of another one. Nobody sends its bytes meanwhile, so it
 * takes no more than its object here. A stream is refused, since its sender would stand still.
 */
#include "build/transfer/import_private.h"

#include "base/log.h"
#include "base/units.h"
#include "build/registry/pull.h"
#include "sandbox/fileops/file_call.h"
#include "sandbox/storage/image.h"
#include "sandbox/storage/template.h"

#include <assert.h>
#include <string.h>

#define TARGET      "/template" /* what a seal of a tree takes */
#define TOLD_MAX    ((size_t)1 << 20)
#define ENTRIES_MAX 1000000
#define LIFE_MS     (UINT64_C(2) * 60 * 60 * 1000) /* of its sandbox; slow lines count */

static const char *const phase_names[] = {
	[IMPORT_WAITING] = "waiting",   [IMPORT_RECEIVING] = "receiving",
	[IMPORT_FETCHING] = "fetching", [IMPORT_UNPACKING] = "unpacking",
	[IMPORT_SEALING] = "sealing",
};
static_assert(ARRAY_SIZE(phase_names) == IMPORT_PHASE_COUNT, "a phase has no name");

const char *import_phase_name(enum import_phase phase)
{
	return phase_names[phase];
}

void import_free(struct import *im)
{
	if (im->call)
		file_call_cancel(im->call);
	if (im->fetch)
		pull_fetch_cancel(im->fetch);
	pull_free(im->pull);
	list_remove(&im->link);
	fair_room_give(im->is_queued ? &im->owner->pull_room : &im->owner->import_room,
	               im->project_id, 1);
	json_decref(im->manifest);
	buf_done(&im->told);
	free(im->name);
	free(im->ref);
	free(im->digest);
	free(im);
}

void imports_close(struct builds *bs)
{
	list_for_each (&bs->imports, struct import, im, link)
		import_free(im);
}

void import_tell(struct import *im)
{
	if (!im->is_left && im->ops->on_progress)
		im->ops->on_progress(im->phase, im->bytes, im->total, im->arg);
}

static struct template_spec spec_of(const struct import *im)
{
	return (struct template_spec){.project_id = im->is_shared ? NULL : im->project_id,
	                              .name = im->name,
	                              .image = im->image,
	                              .manifest = im->manifest,
	                              .is_replacing = im->is_replacing,
	                              .is_set = im->is_set};
}

static void publish(struct import *im, struct template **ret)
{
	const struct template_spec spec = spec_of(im);
	struct fleet *fleet = im->owner->config.fleet;

	if (template_publish(fleet, &spec, ret, &im->error) < 0)
		image_release(fleet, &im->image);
}

/* Called when nothing is left on the host but the image, if there is one. */
static void finish(struct import *im)
{
	struct builds *bs = im->owner;
	struct template *t = NULL;

	if (im->error.code == ERR_NONE) {
		import_note_image(im);
		publish(im, &t);
	}
	if (!t)
		log_info("import.failed", "name=%s error='%s'", im->name, im->error.message);
	if (!im->is_left)
		im->ops->on_end(t, t ? NULL : &im->error, im->arg);
	import_free(im);
	loop_timer_set_in(bs->next_import, 0);
}

static void on_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	finish(arg);
}

struct sandbox *import_sandbox(const struct import *im)
{
	return im->sandbox_id[0]
	               ? sandbox_find(im->owner->config.fleet, BUILD_PROJECT, im->sandbox_id)
	               : NULL;
}

void import_end(struct import *im, const struct err *err)
{
	struct sandbox *s = import_sandbox(im);

	if (err && im->error.code == ERR_NONE)
		im->error = *err;
	if (im->call)
		file_call_cancel(take_ptr(im->call));
	if (im->fetch)
		pull_fetch_cancel(take_ptr(im->fetch));
	if (s)
		sandbox_delete(s, END_DELETED, on_deleted, im);
	else
		finish(im);
}

static void on_unpacked(const struct err *err, void *arg)
{
	struct import *im = arg;
	struct err why = {0};

	im->call = NULL;
	if (!err && !im->is_whole) {
		(void)err_set(&why, ERR_GUEST, 0, "the sandbox did not wait for the archive's end");
		err = &why;
	}
	if (err)
		import_end(im, err);
	else
		import_make_image(im);
}

static void on_data(const char *data, size_t len, void *arg)
{
	struct import *im = arg;

	if (buf_append(&im->told, data, len) < 0) /* no JSON then, which its end tells */
		buf_truncate(&im->told, 0);
}

static void on_record(const struct record *r, void *arg)
{
	struct import *im = arg;

	im->bytes = r->bytes;
	import_tell(im);
}

static void on_room(void *arg)
{
	struct import *im = arg;

	if (!im->is_left)
		im->ops->on_room(im->arg);
}

static const struct file_call_ops call_ops = {
	.on_data = on_data,
	.on_record = on_record,
	.on_room = on_room,
	.on_end = on_unpacked,
};

/* Starts the agent's part. */
static int begin_unpacking(struct import *im, struct sandbox *s, struct err *err)
{
	const uint32_t flags =
		(im->is_bare ? (uint32_t)FILE_BARE : 0) | (im->pull ? (uint32_t)FILE_FETCHED : 0);
	const struct start op = {.kind = START_FILE,
	                         .op = FILE_ROOT_IN,
	                         .flags = flags,
	                         .user = unconst("root"),
	                         .path = unconst(TARGET),
	                         .path2 = im->ref,
	                         .limit = ENTRIES_MAX,
	                         .depth = (uint32_t)im->base.n_layers};

	return file_call_start(s, &op, &call_ops, im, &im->call, err);
}

static void on_fetch_progress(uint64_t bytes, uint64_t total, void *arg)
{
	struct import *im = arg;

	im->bytes = bytes;
	im->total = total;
	import_tell(im);
}

/* Some of its layers are those of an image that is here. Then the others are fetched in a sandbox
 * that has this image, to be unpacked over it. */
static size_t on_layers(const struct digest *chains, size_t n, void *arg)
{
	struct import *im = arg;

	import_find_base(im->owner, im->is_shared ? NULL : im->project_id, chains, n, &im->base);
	if (im->base.is_all)
		return im->base.n_layers;
	return im->base.n_layers > 0 ? PULL_ELSEWHERE : 0;
}

static void on_left(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	(void)arg;
}

static int create_sandbox(struct import *im, struct err *err);

static void go_elsewhere(struct import *im)
{
	struct sandbox *s = import_sandbox(im);
	struct err err;

	if (s)
		sandbox_delete(s, END_DELETED, on_left, NULL);
	im->sandbox_id[0] = '\0';
	if (create_sandbox(im, &err) < 0)
		import_end(im, &err);
}

static void on_fetched(const char *digest, const struct err *err, void *arg)
{
	struct import *im = arg;
	struct sandbox *s = import_sandbox(im);
	struct err why = {0};

	im->fetch = NULL;
	im->bytes = im->total = 0;
	if (!err && !im->digest)
		im->digest = xstrdup(digest);
	if (!err && im->base.n_layers > 0 && !im->base.is_all && !im->is_over) {
		go_elsewhere(im);
		return;
	}
	if (!err && !s)
		(void)err_set(&why, ERR_GONE, 0, "the import's sandbox has ended");
	if (err || !s || begin_unpacking(im, s, &why) < 0) {
		import_end(im, err ? err : &why);
		return;
	}
	import_finish(im);
}

static const struct pull_ops pull_ops = {
	.on_layers = on_layers, .on_progress = on_fetch_progress, .on_end = on_fetched};
static const struct pull_ops whole_pull_ops = {.on_progress = on_fetch_progress,
                                               .on_end = on_fetched};

static void begin_fetch(struct import *im, struct sandbox *s)
{
	const struct pull_fetch_spec rest = {.digest = im->digest, .n_skipped = im->base.n_layers};
	const bool asks = import_has_bases(im->owner, im->is_shared ? NULL : im->project_id);

	im->is_over = im->base.n_layers > 0;
	im->phase = IMPORT_FETCHING;
	import_tell(im);
	im->fetch = pull_fetch_begin(s, im->pull, im->is_over ? &rest : NULL,
	                             asks ? &pull_ops : &whole_pull_ops, im);
}

static void on_created(struct sandbox *s, const struct err *err, void *arg)
{
	struct import *im = arg;
	struct err why = {0};

	if (!err) {
		(void)snprintf(im->sandbox_id, sizeof(im->sandbox_id), "%s", sandbox_id(s));
		if (im->pull) {
			begin_fetch(im, s);
			return;
		}
		im->phase = IMPORT_RECEIVING;
		if (im->is_left)
			(void)err_set(&why, ERR_GONE, 0, "the client is gone");
		else if (begin_unpacking(im, s, &why) == 0) {
			im->ops->on_room(im->arg);
			return;
		}
		err = &why;
	}
	import_end(im, err);
}

static int create_sandbox(struct import *im, struct err *err)
{
	const struct fleet_config *c = fleet_config(im->owner->config.fleet);
	const bool is_over = im->base.n_layers > 0;
	const struct sandbox_spec spec = {
		.template = is_over ? NULL : TEMPLATE_HOST,
		.image = is_over ? &im->base.image : NULL,
		.is_shown = is_over,
		.is_writable = is_over,
		.is_own = true,
		.limits = {.memory_bytes = MIN(1024 * MIB, c->max_limits.memory_bytes),
	                   .disk_bytes = MIN(16384 * MIB, c->max_limits.disk_bytes),
	                   .inodes = MIN(UINT64_C(2000000), c->max_limits.inodes)},
		.timeout_ms = MIN(LIFE_MS, c->max_timeout_ms),
	};

	return sandbox_create(im->owner->config.fleet, BUILD_PROJECT, &spec, on_created, im, err);
}

/* The first of those whose project has room. */
static struct import *take_queued(struct builds *bs)
{
	list_for_each (&bs->imports, struct import, im, link)
		if (im->is_queued && fair_room_take(&bs->import_room, im->project_id, 1))
			return im;
	return NULL;
}

void imports_begin_queued(struct loop *loop, void *arg)
{
	struct builds *bs = arg;
	struct import *im = take_queued(bs);
	struct err err;

	(void)loop;
	if (!im)
		return;
	loop_timer_set_in(bs->next_import, 0); /* there may be room for another */
	fair_room_give(&bs->pull_room, im->project_id, 1);
	im->is_queued = false;
	if (fleet_check_disk(bs->config.fleet, &err) < 0 || create_sandbox(im, &err) < 0)
		import_end(im, &err);
}

/* 0: it has room; 1: it waits for some. */
static int take_room(struct builds *bs, const struct import_spec *spec, struct err *err)
{
	if (fair_room_take(&bs->import_room, spec->project_id, 1))
		return 0;
	if (!spec->pull)
		return err_set(err, ERR_LIMIT, 0, "%zu imports are under way, which is the limit",
		               bs->import_room.used);
	if (fair_room_take(&bs->pull_room, spec->project_id, 1))
		return 1;
	return err_set(err, ERR_LIMIT, 0, "%zu pulls wait already, which is the limit",
	               bs->pull_room.used);
}

int import_start(struct builds *bs, const struct import_spec *spec, const struct import_ops *ops,
                 void *arg, struct import **ret, struct err *err)
{
	struct template_spec wanted;
	struct import *im;
	int r = fleet_check_disk(bs->config.fleet, err);

	if (r == 0)
		r = take_room(bs, spec, err);
	if (r < 0)
		return r;
	im = xnew0(struct import);
	*im = (struct import){.owner = bs,
	                      .pull = spec->pull,
	                      .is_queued = r == 1,
	                      .name = xstrdup(spec->name),
	                      .ref = xstrdup(spec->ref ? spec->ref : ""),
	                      .is_shared = spec->is_shared,
	                      .is_replacing = spec->is_replacing,
	                      .is_small = spec->is_small,
	                      .is_set = spec->is_set,
	                      .is_bare = spec->manifest != NULL,
	                      .manifest = json_deep_copy(spec->manifest),
	                      .ops = ops,
	                      .arg = arg};
	(void)snprintf(im->project_id, sizeof(im->project_id), "%s", spec->project_id);
	buf_init(&im->told, TOLD_MAX);
	list_append(&bs->imports, &im->link);
	wanted = spec_of(im);
	r = template_check_free(bs->config.fleet, &wanted, err);
	if (r == 0 && !im->is_queued)
		r = create_sandbox(im, err);
	if (r < 0) {
		im->pull = NULL; /* still the caller's */
		import_free(im);
		return r;
	}
	*ret = im;
	return 0;
}

size_t import_write(struct import *im, const void *data, size_t len)
{
	ssize_t n = im->call ? file_call_write(im->call, data, len) : 0;

	return n > 0 ? (size_t)n : 0;
}

void import_finish(struct import *im)
{
	im->is_whole = true;
	if (!im->call)
		return;
	im->phase = IMPORT_UNPACKING;
	file_call_finish(im->call);
	import_tell(im);
}

void import_fail(struct import *im, const struct err *err)
{
	if (im->call) /* else it has failed already */
		import_end(im, err);
}

void import_leave(struct import *im)
{
	struct err err;

	im->is_left = true;
	if (im->is_queued) {
		import_free(im);
		return;
	}
	if (im->is_whole || im->pull || im->phase != IMPORT_RECEIVING || !im->call)
		return; /* the current step ends first, and then checks this */
	(void)err_set(&err, ERR_GONE, 0, "the client left before the end of the archive");
	import_end(im, &err);
}
