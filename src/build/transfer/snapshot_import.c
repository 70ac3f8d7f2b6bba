// SPDX-License-Identifier: Apache-2.0
/* Every end, also a failure, goes through end(), which deletes the sandbox before anybody is
 * told. */
#include "build/transfer/snapshot_import.h"

#include "base/log.h"
#include "build/build_private.h"
#include "proto/bundle.h"
#include "sandbox/fileops/file_call.h"
#include "sandbox/snapshot/snapshot.h"
#include "sandbox/snapshot/snapshot_shared.h"
#include "sandbox/storage/template.h"

#include <string.h>

#define HEAD_MAX (BUNDLE_MAGIC_SIZE + BUNDLE_RECORD_MAX)
#define LIFE_MS  (UINT64_C(2) * 60 * 60 * 1000) /* of its sandbox; slow lines count */
#define MIB_MAX  (UINT64_C(1) << 40)

struct snapshot_import {
	struct builds *owner;
	char project_id[ID_SIZE], key_id[ID_SIZE], sandbox_id[ID_SIZE], made_id[ID_SIZE];
	char *name;
	struct snapshot *described; /* or NULL */
	struct buf head;            /* until the agent takes it */
	bool is_creating, is_whole, is_counted, is_left, is_over;
	struct file_call *call;
	struct err error;
	const struct snapshot_import_ops *ops;
	void *arg;
};

static void import_done(struct snapshot_import *im)
{
	if (im->call)
		file_call_cancel(im->call);
	buf_done(&im->head);
	snapshot_forget_described(im->described);
	free(im->name);
	free(im);
}

static struct sandbox *find_sandbox(const struct snapshot_import *im)
{
	return im->sandbox_id[0]
	               ? sandbox_find(im->owner->config.fleet, im->project_id, im->sandbox_id)
	               : NULL;
}

static void tell(struct loop *loop, void *arg)
{
	struct snapshot_import *im = arg;
	struct snapshot *sn =
		im->made_id[0] ? snapshot_find(im->owner->config.fleet, im->project_id, im->made_id)
			       : NULL;

	(void)loop;
	if (!sn && im->error.code == ERR_NONE)
		(void)err_set(&im->error, ERR_GONE, 0, "the snapshot was removed at once");
	if (!im->is_left)
		im->ops->on_end(sn, sn ? NULL : &im->error, im->arg);
	import_done(im);
}

static void on_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	tell(NULL, arg);
}

static void end(struct snapshot_import *im, const struct err *err)
{
	struct sandbox *s = find_sandbox(im);

	if (im->is_over)
		return;
	im->is_over = true;
	if (err)
		im->error = *err;
	if (im->call)
		file_call_cancel(take_ptr(im->call));
	if (s)
		sandbox_delete(s, END_DELETED, on_deleted, im);
	else /* from the loop: the caller may not have its pointer yet */
		loop_defer(im->owner->config.loop, tell, im);
}

static void on_taken(struct snapshot *sn, const struct err *err, void *arg)
{
	struct snapshot_import *im = arg;

	if (sn)
		(void)snprintf(im->made_id, sizeof(im->made_id), "%s", snapshot_id(sn));
	end(im, err);
}

static void take(struct snapshot_import *im)
{
	const struct snapshot_wish wish = {.name = im->name, .described = im->described};
	struct sandbox *s = find_sandbox(im);
	struct err err;

	if (!s)
		(void)err_set(&err, ERR_GONE, 0, "the import's sandbox has ended");
	else if (snapshot_take(s, &wish, on_taken, im, &err) == 0) {
		im->described = NULL;
		return;
	}
	end(im, &err);
}

static void on_record(const struct record *r, void *arg)
{
	struct snapshot_import *im = arg;

	im->is_counted = r->kind == RECORD_COUNT;
}

static void on_unpacked(const struct err *err, void *arg)
{
	struct snapshot_import *im = arg;
	struct err why;

	im->call = NULL;
	if (!err && (!im->is_counted || !im->is_whole)) {
		(void)err_set(&why, ERR_GUEST, 0, "the sandbox did not wait for the bundle's end");
		err = &why;
	}
	if (err)
		end(im, err);
	else
		take(im);
}

static bool push_head(struct snapshot_import *im)
{
	while (im->head.len > 0) {
		ssize_t n = file_call_write(im->call, im->head.data, im->head.len);

		if (n <= 0)
			return false;
		buf_consume(&im->head, (size_t)n);
	}
	return true;
}

static void on_room(void *arg)
{
	struct snapshot_import *im = arg;

	if (!push_head(im))
		return;
	if (im->is_whole)
		file_call_finish(im->call);
	else if (!im->is_left)
		im->ops->on_room(im->arg);
}

static const struct file_call_ops call_ops = {
	.on_record = on_record, .on_room = on_room, .on_end = on_unpacked};

static void on_created(struct sandbox *s, const struct err *err, void *arg)
{
	const struct start op = {.kind = START_FILE,
	                         .op = FILE_BUNDLE_IN,
	                         .user = unconst("root"),
	                         .path = unconst("/")};
	struct snapshot_import *im = arg;
	struct err why = {0};

	im->is_creating = false;
	if (s)
		(void)snprintf(im->sandbox_id, sizeof(im->sandbox_id), "%s", sandbox_id(s));
	if (!err && im->is_left && !im->is_whole)
		(void)err_set(&why, ERR_GONE, 0, "the client is gone");
	else if (!err)
		(void)!file_call_start(s, &op, &call_ops, im, &im->call, &why);
	if (err || why.code != ERR_NONE)
		end(im, err ? err : &why);
	else
		on_room(im);
}

static int refuse(struct err *err)
{
	(void)err_set(err, ERR_FILE_INVALID, 0, "this is no bundle of a snapshot");
	return err_hint(err, "import what `cloche snapshot export` has written");
}

static int check_template(struct snapshot_import *im, const char *name, const char *image,
                          struct err *err)
{
	const struct template *t;
	struct digest digest = {0};

	if (image && digest_parse(image, &digest) < 0)
		return refuse(err);
	if (im->described)
		return digest_equal(snapshot_image(im->described), &digest) ? 0 : refuse(err);
	if (!image)
		return strcmp(name, TEMPLATE_HOST) == 0 ? 0 : refuse(err);
	t = template_find(im->owner->config.fleet, im->project_id, name);
	if (t && digest_equal(template_image(t), &digest))
		return 0;
	(void)err_set(err, ERR_CONFLICT, 0, "its template '%.64s' is not here, or is another one",
	              name);
	return err_hint(err, "import the template first: sha256:%.64s", image);
}

/* The bundle's description is not trusted: it is parsed as strictly as a request. */
static int begin(struct snapshot_import *im, const char *text, size_t len, struct err *err)
{
	const struct fleet_config *c = fleet_config(im->owner->config.fleet);
	const char *name = NULL, *image = NULL, *engine = NULL;
	uint64_t format = 0, disk_mib = 0;
	auto_json json_t *json = NULL;
	const json_t *digest = NULL;
	const struct json_field fields[] = {
		{"format", JSON_FIELD_U64, &format, .min = 1, .max = 1},
		{"template", JSON_FIELD_STRING, &name, .min = 1, .max = 128},
		{"image", JSON_FIELD_ANY, &digest},
		{"disk_mib", JSON_FIELD_U64, &disk_mib, .max = MIB_MAX},
		{"engine", JSON_FIELD_STRING, &engine},
	};
	struct sandbox_spec spec = {.is_own = true,
	                            .key_id = im->key_id[0] ? im->key_id : NULL,
	                            .ends_with_caller = true,
	                            .timeout_ms = MIN(LIFE_MS, c->max_timeout_ms)};
	int r;

	if (json_parse(text, len, &json, err) < 0 ||
	    json_read(json, "", fields, ARRAY_SIZE(fields), err) < 0 || format != 1 || !name ||
	    (engine && !engine_find_name(engine)))
		return refuse(err);
	image = json_string_value(digest);
	r = check_template(im, name, image, err);
	if (r < 0)
		return r;
	if (!im->described)
		spec.template = name;
	else if (image)
		spec.image = snapshot_image(im->described);
	else
		spec.template = TEMPLATE_HOST;
	/* Without an engine in it, the first one is used, or another if that is forbidden. */
	if (engine || fleet_forbids(im->owner->config.fleet, ENGINE_BASE))
		spec.engine = engine ? engine : "auto";
	if (disk_mib > 0)
		spec.limits.disk_bytes = MIN(disk_mib << 20, c->max_limits.disk_bytes);
	r = sandbox_create(im->owner->config.fleet, im->project_id, &spec, on_created, im, err);
	im->is_creating = r == 0;
	return r;
}

/* Begins once the first record is there. */
static int look(struct snapshot_import *im, struct err *err)
{
	struct bundle_record r;
	size_t used;
	int error;

	if (im->head.len < BUNDLE_MAGIC_SIZE)
		return im->is_whole ? refuse(err) : 0;
	if (memcmp(im->head.data, BUNDLE_MAGIC, BUNDLE_MAGIC_SIZE) != 0)
		return refuse(err);
	error = bundle_decode(im->head.data + BUNDLE_MAGIC_SIZE, im->head.len - BUNDLE_MAGIC_SIZE,
	                      &r, &used);
	if (error == 0)
		return im->is_whole ? refuse(err) : 0;
	if (error < 0)
		return refuse(err);
	error = r.kind == BUNDLE_TEXT ? begin(im, r.data, r.len, err) : refuse(err);
	bundle_record_done(&r);
	return error;
}

int snapshot_import_start(struct builds *bs, const struct snapshot_import_spec *spec,
                          const struct snapshot_import_ops *ops, void *arg,
                          struct snapshot_import **ret, struct err *err)
{
	struct snapshot_import *im;
	int r = spec->described
	                ? 0
	                : snapshot_check_free(bs->config.fleet, spec->project_id, spec->name, err);

	if (r < 0)
		return r;
	im = xnew0(struct snapshot_import);
	*im = (struct snapshot_import){.owner = bs,
	                               .name = spec->name ? xstrdup(spec->name) : NULL,
	                               .described = spec->described,
	                               .head = BUF_INIT(HEAD_MAX),
	                               .ops = ops,
	                               .arg = arg};
	(void)snprintf(im->project_id, sizeof(im->project_id), "%s", spec->project_id);
	(void)snprintf(im->key_id, sizeof(im->key_id), "%s", spec->key_id ? spec->key_id : "");
	*ret = im;
	return 0;
}

size_t snapshot_import_write(struct snapshot_import *im, const char *data, size_t len)
{
	struct err err;
	size_t n;
	ssize_t taken;

	if (im->is_over || im->is_creating)
		return 0;
	if (im->call) {
		taken = push_head(im) ? file_call_write(im->call, data, len) : 0;
		return taken < 0 ? 0 : (size_t)taken;
	}
	if (im->sandbox_id[0])
		return 0;
	n = MIN(len, buf_room(&im->head));
	if (n == 0 || buf_append(&im->head, data, n) < 0) {
		(void)refuse(&err);
		end(im, &err);
		return 0;
	}
	if (look(im, &err) < 0)
		end(im, &err);
	return n;
}

void snapshot_import_finish(struct snapshot_import *im)
{
	struct err err;

	im->is_whole = true;
	if (im->call && push_head(im))
		file_call_finish(im->call);
	else if (!im->is_creating && !im->call && !im->sandbox_id[0] && !im->is_over &&
	         look(im, &err) < 0)
		end(im, &err);
}

void snapshot_import_leave(struct snapshot_import *im)
{
	struct err err;

	im->is_left = true;
	(void)err_set(&err, ERR_GONE, 0, "the client is gone");
	if (!im->is_whole && !im->is_creating)
		end(im, &err);
}
