// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A view: a sandbox of `host` without network in which up to three snapshots of one template can be
 * read by its agent. So files that sandboxes wrote are never parsed outside. Snapshots of vms are
 * read by a vm, which is booted for that over their template: their filesystem may attack the
 * kernel that mounts it, and this kernel has nothing else to lose. A volume can be read in the same
 * way while none of its owner's sandboxes runs.
 *
 * Views are given by id or name: a snapshot, or a sandbox as it is now (snapshot_hold()). What is
 * shown does not change until view_close().
 */
#include "build/build.h"
#include "sandbox/fileops/file_call.h"

struct view;

struct view_spec {
	const char *project_id;
	const char *values[SHOWN_MAX]; /* the first ones; borrowed for the call */
};
/* ready is called once, from the loop, unless view_close() came first. After an error only
 * view_close() is left. */
must_check int view_open(struct builds *bs, const struct view_spec *spec,
                         void (*ready)(const struct err *err, void *arg), void *arg,
                         struct view **ret, struct err *err);
/* The same for a volume: its files are below VIEW_VOLUME, to read and write. */
#define VIEW_VOLUME "/volume"
must_check int view_open_volume(struct builds *bs, const char *project_id, const char *volume_id,
                                void (*ready)(const struct err *err, void *arg), void *arg,
                                struct view **ret, struct err *err);
/* Starts an operation in a ready view; one after the other. If op has no path, it is the directory
 * with all that is shown. */
#define VIEW_FIRST "/shown/0" /* the root of the first */
must_check int view_call(struct view *v, struct start *op, const struct file_call_ops *ops,
                         void *arg, struct file_call **ret, struct err *err);
void view_close(struct view *v); /* NULL is fine; calls have ended or were cancelled */
/* The same for a view that was ready or has failed: closed is called when nothing is left of it,
 * unless view_close() came first. It may be called from inside this call. */
void view_close_then(struct view *v, void (*closed)(void *arg), void *arg);
