// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Imports a snapshot from a bundle (proto/bundle.h): the agent of a new sandbox of its template
 * applies the bundle, and a snapshot of the sandbox is taken. Here only the bundle's first record
 * is read, which names the template; the agent checks the rest.
 *
 *	(text) --> creating --> receiving --> taking --> deleting --> (told)
 */
#include "build/build.h"

struct snapshot;
struct snapshot_import;

struct snapshot_import_spec { /* borrowed for the call */
	const char *project_id, *key_id, *name;
	/* A copy of a snapshot of another node (snapshot_read_description()), with its name and
	 * image; the import's if it starts. Or NULL. */
	struct snapshot *described;
};
struct snapshot_import_ops {
	void (*on_room)(void *arg); /* more may be written */
	/* Called once, unless snapshot_import_leave() came first; exactly one is NULL. */
	void (*on_end)(struct snapshot *sn, const struct err *err, void *arg);
};
must_check int snapshot_import_start(struct builds *bs, const struct snapshot_import_spec *spec,
                                     const struct snapshot_import_ops *ops, void *arg,
                                     struct snapshot_import **ret, struct err *err);
/* Returns how much it took; 0: on_room or on_end follows. */
size_t snapshot_import_write(struct snapshot_import *im, const char *data, size_t len);
void snapshot_import_finish(struct snapshot_import *im);
void snapshot_import_leave(struct snapshot_import *im); /* it goes on if everything has come */
