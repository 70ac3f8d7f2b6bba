// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Makes a template of the files of a vm, or of a snapshot of one. The host never reads a disk that
 * a vm has written: a view (view.h) does, and sends the root as a tar. The tar is not trusted, and
 * is imported like any other (import.h).
 *
 * It goes on if its caller leaves, and lives as long as this process.
 */
#include "build/build.h"

struct template;

struct vm_template_spec { /* borrowed for the call */
	const char *project_id;
	const char *from; /* id of a snapshot, or of a sandbox, as it is now */
	const char *name; /* of the template */
	bool is_shared, is_replacing;
	bool is_tree;           /* its directory /template, not its root */
	const json_t *manifest; /* with `sealed`: image_sealed_json() */
};

/* done is called once, from the loop, when nothing is left but the template; one of t and err is
 * NULL. */
must_check int vm_template_start(struct builds *bs, const struct vm_template_spec *spec,
                                 void (*done)(struct template *t, const struct err *err, void *arg),
                                 void *arg, struct err *err);
