// SPDX-License-Identifier: Apache-2.0
/*
 *	view: the root's tar ──► import: unpacked, sealed, named
 *
 * The tar passes through here a window at a time, as fast as the slower side. The view uses the
 * template below its snapshot, so it is closed before the import sees the end of the tar. Every
 * failure goes through wind_up(), which is called until both are gone.
 */
#include "build/transfer/vm_template.h"

#include "build/build_private.h"
#include "build/transfer/import.h"
#include "build/transfer/view.h"

#include <stdio.h>

#define TREE     "template"    /* as of a seal of a tree */
#define HELD_MAX (1024 * 1024) /* more than a window */

struct vm_template {
	struct list link;
	struct builds *owner;
	char project_id[ID_SIZE];
	char *name;
	bool is_shared, is_replacing, is_tree;
	json_t *manifest;
	struct view *view; /* NULL: it is gone */
	struct file_call *out;
	struct import *import; /* NULL: there is none yet, or it has ended */
	struct buf held;       /* of the tar, that the import had no room for */
	bool is_begun, is_view_closing, is_whole, is_import_failing;
	struct err error; /* the first one */
	void (*done)(struct template *t, const struct err *err, void *arg);
	void *arg;
};

static void vm_template_free(struct vm_template *vt)
{
	list_remove(&vt->link);
	if (vt->out)
		file_call_cancel(vt->out);
	buf_done(&vt->held);
	json_decref(vt->manifest);
	free(vt->name);
	free(vt);
}

void vm_templates_close(struct builds *bs)
{
	list_for_each (&bs->vm_templates, struct vm_template, vt, link)
		vm_template_free(vt); /* views and imports go with the others */
}

static void wind_up(struct vm_template *vt);

static void push(struct vm_template *vt)
{
	while (vt->held.len > 0) {
		size_t n = import_write(vt->import, vt->held.data, vt->held.len);

		if (n == 0)
			return; /* on_room goes on */
		buf_consume(&vt->held, n);
	}
	if (vt->out) {
		file_call_pause(vt->out, false);
	} else if (vt->is_whole) {
		vt->is_whole = false; /* told once */
		import_finish(vt->import);
	}
}

static void on_view_closed(void *arg)
{
	struct vm_template *vt = arg;

	vt->view = NULL;
	if (vt->error.code != ERR_NONE) {
		wind_up(vt);
	} else {
		vt->is_whole = true;
		push(vt);
	}
}

static void close_view(struct vm_template *vt)
{
	if (vt->is_view_closing)
		return;
	vt->is_view_closing = true;
	view_close_then(vt->view, on_view_closed, vt);
}

/* May free it, so nothing may use it after this. */
static void wind_up(struct vm_template *vt)
{
	if (vt->out)
		file_call_cancel(take_ptr(vt->out));
	if (vt->view) {
		close_view(vt);
	} else if (vt->import) {
		if (!vt->is_import_failing) {
			vt->is_import_failing = true;
			import_fail(vt->import, &vt->error);
		}
	} else {
		vt->done(NULL, &vt->error, vt->arg);
		vm_template_free(vt);
	}
}

static void fail(struct vm_template *vt, const struct err *err)
{
	if (vt->error.code == ERR_NONE)
		vt->error = *err;
	wind_up(vt);
}

static void on_out_data(const char *data, size_t len, void *arg)
{
	struct vm_template *vt = arg;
	struct err err;

	if (!vt->import || vt->error.code != ERR_NONE)
		return;
	if (buf_append(&vt->held, data, len) < 0) {
		(void)err_set(&err, ERR_GUEST, 0, "the machine sends more than it was asked for");
		fail(vt, &err);
		return;
	}
	file_call_pause(vt->out, true);
	push(vt);
}

static void on_out_end(const struct err *err, void *arg)
{
	struct vm_template *vt = arg;

	vt->out = NULL;
	if (err)
		fail(vt, err);
	else
		close_view(vt);
}

static void begin(struct vm_template *vt)
{
	static const struct file_call_ops ops = {.on_data = on_out_data, .on_end = on_out_end};
	struct start op = {.op = FILE_ROOT_OUT,
	                   .flags = FILE_BARE,
	                   .path = unconst(VIEW_FIRST),
	                   .path2 = vt->is_tree ? unconst(TREE) : NULL};
	struct err err;

	vt->is_begun = true;
	if (view_call(vt->view, &op, &ops, vt, &vt->out, &err) < 0)
		fail(vt, &err);
	else
		file_call_finish(vt->out);
}

static void on_room(void *arg)
{
	struct vm_template *vt = arg;

	if (vt->error.code != ERR_NONE)
		return;
	if (vt->is_begun)
		push(vt);
	else
		begin(vt);
}

static void on_import_end(struct template *t, const struct err *err, void *arg)
{
	struct vm_template *vt = arg;

	vt->import = NULL;
	if (err) {
		fail(vt, err);
		return;
	}
	vt->done(t, NULL, vt->arg);
	vm_template_free(vt);
}

static void on_ready(const struct err *err, void *arg)
{
	static const struct import_ops ops = {.on_room = on_room, .on_end = on_import_end};
	struct vm_template *vt = arg;
	const struct import_spec spec = {.project_id = vt->project_id,
	                                 .name = vt->name,
	                                 .is_shared = vt->is_shared,
	                                 .is_replacing = vt->is_replacing,
	                                 .manifest = vt->manifest};
	struct err why;

	if (!err && import_start(vt->owner, &spec, &ops, vt, &vt->import, &why) < 0)
		err = &why;
	if (err)
		fail(vt, err);
}

int vm_template_start(struct builds *bs, const struct vm_template_spec *spec,
                      void (*done)(struct template *t, const struct err *err, void *arg), void *arg,
                      struct err *err)
{
	const struct view_spec view = {.project_id = spec->project_id, .values = {spec->from}};
	struct vm_template *vt = xnew0(struct vm_template);
	int r;

	*vt = (struct vm_template){.owner = bs,
	                           .name = xstrdup(spec->name),
	                           .is_shared = spec->is_shared,
	                           .is_replacing = spec->is_replacing,
	                           .is_tree = spec->is_tree,
	                           .manifest = json_deep_copy(spec->manifest),
	                           .held = BUF_INIT(HELD_MAX),
	                           .done = done,
	                           .arg = arg};
	(void)snprintf(vt->project_id, sizeof(vt->project_id), "%s", spec->project_id);
	list_append(&bs->vm_templates, &vt->link);
	r = view_open(bs, &view, on_ready, vt, &vt->view, err);
	if (r < 0)
		vm_template_free(vt);
	return r;
}
