// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A view: a sandbox of `host` without network in which up to three snapshots of one template can be
 * read, and what its agent is asked to make of them. So files that sandboxes wrote are looked at by
 * nobody outside. Snapshots of vms are looked into by a vm, which is booted for it over their
 * template: their filesystem is hostile to whichever kernel mounts it, and that one has nothing
 * else to lose. A volume can be looked into likewise while no sandbox of its owner's runs.
 *
 * What is viewed is named as its owner does, by id or name, a snapshot or a sandbox as it is now
 * (snapshot_hold()). It stays what it is until view_close().
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
/* The same of a volume: its files are below VIEW_VOLUME, to read and write.
 */
#define VIEW_VOLUME "/volume"
must_check int view_open_volume(struct builds *bs, const char *project_id, const char *volume_id,
                                void (*ready)(const struct err *err, void *arg), void *arg,
                                struct view **ret, struct err *err);
/* In one that is ready; one after the other. Where op has no path that is where all is shown. */
#define VIEW_FIRST "/shown/0" /* the root of the first */
must_check int view_call(struct view *v, struct start *op, const struct file_call_ops *ops,
                         void *arg, struct file_call **ret, struct err *err);
void view_close(struct view *v); /* NULL is fine; calls have ended or were cancelled */
/* The same of one that was ready, or that told an error: closed is called when nothing is left of
 * it, unless view_close() came first. It may be called from inside this call. */
void view_close_then(struct view *v, void (*closed)(void *arg), void *arg);
