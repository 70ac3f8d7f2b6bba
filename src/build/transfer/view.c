// SPDX-License-Identifier: Apache-2.0
/*
 * First all snapshots are held at once, then the sandbox is made. At the end the sandbox is deleted
 * first, and the snapshots are released when it is gone.
 */
#include "build/transfer/view.h"

#include "base/units.h"
#include "build/build_private.h"
#include "sandbox/snapshot/snapshot.h"
#include "sandbox/storage/template.h"

#include <stdio.h>
#include <string.h>

#define PLACE          "/shown"
#define MEMORY         (1024 * MIB)
#define MACHINE_MEMORY (256 * MIB) /* a guest's kernel fills what it has with what it read */
#define VOLUME_MEMORY  (128 * MIB)
#define NOFILE         4096                           /* some for each level of a tree */
#define LIFE_MS        (UINT64_C(2) * 60 * 60 * 1000) /* of its sandbox; slow lines count */

struct view {
	struct list link;
	struct builds *owner;
	struct fair_room *room;
	char project_id[ID_SIZE]; /* of who asked for it */
	struct snapshot_hold *holds[SHOWN_MAX];
	size_t n, n_held;
	char volume_id[ID_SIZE]; /* instead, or "" */
	struct err error;        /* of the first that could not be held */
	char sandbox_id[ID_SIZE];
	bool is_creating, is_closed;
	void (*ready)(const struct err *err, void *arg);
	void (*closed)(void *arg); /* or NULL */
	void *arg;
};

static void view_free(struct view *v)
{
	list_remove(&v->link);
	fair_room_give(v->room, v->project_id, 1);
	for (size_t i = 0; i < v->n; i++)
		snapshot_release(v->holds[i]);
	free(v);
}

void views_close(struct builds *bs)
{
	list_for_each (&bs->views, struct view, v, link) {
		list_remove(&v->link);
		free(v); /* the holds go with the fleet */
	}
}

static void on_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	struct view *v = arg;
	void (*closed)(void *arg) = v->closed;
	void *closed_arg = v->arg;

	(void)s;
	(void)err;
	view_free(v);
	if (closed)
		closed(closed_arg);
}

static struct sandbox *find_sandbox(const struct view *v)
{
	return v->sandbox_id[0] ? sandbox_find(v->owner->config.fleet, BUILD_PROJECT, v->sandbox_id)
	                        : NULL;
}

static void end(struct view *v)
{
	struct sandbox *s = find_sandbox(v);

	if (s)
		sandbox_delete(s, END_DELETED, on_deleted, v);
	else
		on_deleted(NULL, NULL, v);
}

void view_close(struct view *v)
{
	if (!v)
		return;
	v->closed = NULL;
	if (v->is_closed)
		return;
	v->is_closed = true;
	if (!v->is_creating) /* else on_created() does it */
		end(v);
}

void view_close_then(struct view *v, void (*closed)(void *arg), void *arg)
{
	v->is_closed = true;
	v->closed = closed;
	v->arg = arg;
	end(v);
}

static void tell(struct view *v, const struct err *err)
{
	if (!v->is_closed)
		v->ready(err, v->arg);
}

static void on_created(struct sandbox *s, const struct err *err, void *arg)
{
	struct view *v = arg;

	v->is_creating = false;
	if (s)
		(void)snprintf(v->sandbox_id, sizeof(v->sandbox_id), "%s", sandbox_id(s));
	if (v->is_closed)
		end(v);
	else
		tell(v, err);
}

static int check_alike(const struct view *v, struct err *err)
{
	for (size_t i = 1; i < v->n; i++) {
		if (!digest_equal(snapshot_hold_image(v->holds[0]),
		                  snapshot_hold_image(v->holds[i]))) {
			(void)err_set(err, ERR_CONFLICT, 0, "they are over different templates");
			return err_hint(err, "compare what was made from the same template");
		}
		if (snapshot_hold_engine(v->holds[0]) == snapshot_hold_engine(v->holds[i]))
			continue;
		(void)err_set(err, ERR_CONFLICT, 0, "one is of a jail, another of a vm");
		return err_hint(err, "compare what was made by the same engine");
	}
	return 0;
}

static int create_sandbox(struct view *v, struct err *err)
{
	const struct fleet_config *c = fleet_config(v->owner->config.fleet);
	const struct digest *image = snapshot_hold_image(v->holds[0]);
	const bool is_host = digest_is_zero(image);
	const uint32_t engine = snapshot_hold_engine(v->holds[0]);
	const bool is_machine = engine_traits(engine)->has_own_disk;
	const uint64_t memory = is_machine ? MACHINE_MEMORY : MEMORY;
	struct sandbox_spec spec = {
		.template = is_host ? TEMPLATE_HOST : NULL,
		.image = is_host ? NULL : image,
		.is_shown = !is_host && !is_machine,
		.is_own = true,
		.engine = engine == ENGINE_BASE ? NULL : engine_name(engine),
		.limits = {.memory_bytes = MIN(memory, c->max_limits.memory_bytes),
	                   .open_files = (uint32_t)MIN(NOFILE, c->max_limits.open_files)},
		.timeout_ms = MIN(LIFE_MS, c->max_timeout_ms),
	};
	int r = check_alike(v, err);

	if (is_machine) { /* a size for which an empty disk exists already */
		spec.limits.disk_bytes = snapshot_hold_limits(v->holds[0])->disk_bytes;
		spec.limits.inodes = snapshot_hold_limits(v->holds[0])->inodes;
	}
	for (size_t i = 0; i < v->n; i++)
		spec.shown[i] = snapshot_hold_id(v->holds[i]);
	if (r == 0)
		r = sandbox_create(v->owner->config.fleet, BUILD_PROJECT, &spec, on_created, v,
		                   err);
	v->is_creating = r == 0;
	return r;
}

static void on_held(const struct err *err, void *arg)
{
	struct view *v = arg;

	if (err && v->error.code == ERR_NONE)
		v->error = *err;
	if (++v->n_held < v->n || v->is_closed)
		return;
	if (v->error.code != ERR_NONE || create_sandbox(v, &v->error) < 0)
		tell(v, &v->error);
}

/* NULL: there is no room. */
static struct view *view_new(struct builds *bs, struct fair_room *room, const char *project_id,
                             void (*ready)(const struct err *err, void *arg), void *arg)
{
	struct view *v;

	if (!fair_room_take(room, project_id, 1))
		return NULL;
	v = xnew0(struct view);
	*v = (struct view){.owner = bs, .room = room, .ready = ready, .arg = arg};
	(void)snprintf(v->project_id, sizeof(v->project_id), "%s", project_id);
	list_append(&bs->views, &v->link);
	return v;
}

int view_open_volume(struct builds *bs, const char *project_id, const char *volume_id,
                     void (*ready)(const struct err *err, void *arg), void *arg, struct view **ret,
                     struct err *err)
{
	const struct fleet_config *c = fleet_config(bs->config.fleet);
	const struct sandbox_spec spec = {
		.template = TEMPLATE_HOST,
		.is_own = true,
		.shown_volume = volume_id,
		.limits = {.memory_bytes = MIN(VOLUME_MEMORY, c->max_limits.memory_bytes)},
		.timeout_ms = MIN(LIFE_MS, c->max_timeout_ms),
	};
	struct view *v = view_new(bs, &bs->volume_room, project_id, ready, arg);
	int r;

	if (!v)
		return err_set(err, ERR_LIMIT, 0,
		               "the files of %zu volumes are being read, which is the limit",
		               bs->volume_room.used);
	(void)snprintf(v->volume_id, sizeof(v->volume_id), "%s", volume_id);
	r = sandbox_create(bs->config.fleet, BUILD_PROJECT, &spec, on_created, v, err);
	if (r < 0) {
		view_free(v);
		return r;
	}
	v->is_creating = true;
	*ret = v;
	return 0;
}

int view_open(struct builds *bs, const struct view_spec *spec,
              void (*ready)(const struct err *err, void *arg), void *arg, struct view **ret,
              struct err *err)
{
	struct view *v;
	int r = 0;

	for (size_t i = 0; r == 0 && i < SHOWN_MAX && spec->values[i]; i++)
		r = snapshot_hold_check(bs->config.fleet, spec->project_id, spec->values[i], err);
	if (r < 0)
		return r;
	v = view_new(bs, &bs->view_room, spec->project_id, ready, arg);
	if (!v)
		return err_set(err, ERR_LIMIT, 0,
		               "%zu comparisons are under way, which is the limit",
		               bs->view_room.used);
	for (size_t i = 0; r == 0 && i < SHOWN_MAX && spec->values[i]; i++) {
		r = snapshot_hold(bs->config.fleet, spec->project_id, spec->values[i], on_held, v,
		                  &v->holds[i], err);
		v->n++;
	}
	if (r < 0) {
		view_free(v);
		return r;
	}
	*ret = v;
	return 0;
}

int view_call(struct view *v, struct start *op, const struct file_call_ops *ops, void *arg,
              struct file_call **ret, struct err *err)
{
	struct sandbox *s = find_sandbox(v);

	if (!s)
		return err_set(err, ERR_GONE, 0, "the sandbox that looks at it has ended");
	op->kind = START_FILE;
	if (!v->volume_id[0]) {
		op->user = unconst("root");
		op->path = op->path ? op->path : unconst(PLACE);
	}
	return file_call_start(s, op, ops, arg, ret, err);
}
