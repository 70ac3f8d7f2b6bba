// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * An import: an image or a root that comes as one stream, on its way to a template.
 *
 *	waiting --> receiving --> unpacking --> sealing --> the name --> its end
 *
 * The bytes go into a sandbox without network, made for this, as they come; what they are is found
 * out inside (src/agent/fileops/op_image_in.c), and what lies in it is sealed by the host's own
 *mkfs. So neither parses the gateway a foreign archive, nor does the host ever mount a foreign
 *image.
 *
 * An import lives as long as this process: there is nothing to go on with once its stream is lost.
 * Its sandbox belongs to BUILD_PROJECT, of which a start deletes what no build knows.
 */
#include "build/build.h"

struct import;
struct template;

enum import_phase {
	IMPORT_WAITING,   /* for its sandbox */
	IMPORT_RECEIVING, /* and unpacking as it comes */
	IMPORT_UNPACKING, /* all has come: layers are put together */
	IMPORT_SEALING,
	IMPORT_PHASE_COUNT
};
const char *import_phase_name(enum import_phase phase);

struct import_spec { /* borrowed for the call */
	const char *project_id;
	const char *name; /* of the template */
	const char *ref;  /* which image, where there are several; or NULL */
	bool is_shared, is_replacing, is_small;
	/* Of the template, or NULL. With one it is a root that comes, whatever lies in it, and how
	 * it is sealed stands in here (image_sealed_json()). */
	const json_t *manifest;
};

struct import_ops {
	/* More may be written. */
	void (*on_room)(void *arg);
	/* As it goes, and at each change of the phase. bytes: of the files, or of the image. Or
	 * NULL. */
	void (*on_progress)(enum import_phase phase, uint64_t bytes, void *arg);
	/* The manifest as its image tells it: all of it a stranger's words. Also after
	 * import_leave(). NULL where the spec has one. */
	int (*check)(const json_t *manifest, struct err *err);
	/* Exactly once, unless import_leave() came before; one of t and err is NULL. */
	void (*on_end)(struct template *t, const struct err *err, void *arg);
};

must_check int import_start(struct builds *bs, const struct import_spec *spec,
                            const struct import_ops *ops, void *arg, struct import **ret,
                            struct err *err);
must_check size_t import_write(struct import *im, const void *data, size_t len); /* what fits */
void import_finish(struct import *im); /* the end of the stream */
/* There is no end of it: on_end tells this error once nothing is left. */
void import_fail(struct import *im, const struct err *err);
/* Whoever asked is gone. What has come as a whole becomes a template all the same, the rest is
 * dropped. */
void import_leave(struct import *im);
