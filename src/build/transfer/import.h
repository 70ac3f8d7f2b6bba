// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Imports an image or a root, which comes as one stream, or an image of a registry, as a template.
 *
 *	waiting --> receiving --> unpacking --> sealing --> the name --> its end
 *	   +------> fetching ---------^
 *
 * The bytes go directly into a sandbox without network, made for this. They are parsed inside
 * (src/agent/fileops/op_image_in.c), and the resulting files are sealed by the host's own mkfs. So
 * the gateway never parses a foreign archive, and the host never mounts a foreign image.
 *
 * An import lives as long as this process: once its stream is lost, it cannot go on. Its sandbox
 * belongs to BUILD_PROJECT; a start deletes sandboxes of that project that no build knows.
 */
#include "build/build.h"

struct import;
struct pull;
struct template;

enum import_phase {
	IMPORT_WAITING,   /* for its sandbox; a pull also for room */
	IMPORT_RECEIVING, /* and unpacking as it comes */
	IMPORT_FETCHING,  /* from a registry, by the sandbox itself */
	IMPORT_UNPACKING, /* all has come: layers are put together */
	IMPORT_SEALING,
	IMPORT_PHASE_COUNT
};
const char *import_phase_name(enum import_phase phase);

struct import_spec { /* borrowed for the call */
	const char *project_id;
	const char *name; /* of the template */
	const char *ref;  /* which of several images; or NULL */
	bool is_shared, is_replacing, is_small;
	bool is_set; /* its name is none that a client can give (build/set.h) */
	/* The template's manifest, or NULL. With one, a bare root comes, with any contents, and the
	 * manifest says how to seal it (image_sealed_json()). */
	const json_t *manifest;
	/* Fetched instead of a stream; the import's if import_start() succeeds. Or NULL. */
	struct pull *pull;
};

struct import_ops {
	/* More may be written. Never called for a pull, and may be NULL there. */
	void (*on_room)(void *arg);
	/* Called now and then, and at each change of the phase. bytes: of the files, of the
	 * image, or of what is fetched; then total is known, else it is 0. May be NULL. */
	void (*on_progress)(enum import_phase phase, uint64_t bytes, uint64_t total, void *arg);
	/* Checks the manifest that the image brings, which is not trusted. Also called after
	 * import_leave(). NULL if the spec has one. */
	int (*check)(const json_t *manifest, struct err *err);
	/* Called exactly once, unless import_leave() came before; one of t and err is NULL. */
	void (*on_end)(struct template *t, const struct err *err, void *arg);
};

must_check int import_start(struct builds *bs, const struct import_spec *spec,
                            const struct import_ops *ops, void *arg, struct import **ret,
                            struct err *err);
must_check size_t import_write(struct import *im, const void *data, size_t len); /* what fits */
void import_finish(struct import *im); /* the end of the stream */
/* The stream failed: on_end reports this error once nothing is left. */
void import_fail(struct import *im, const struct err *err);
/* The caller is gone. If everything has come, or is fetched, it still becomes a template; otherwise
 * it is dropped. */
void import_leave(struct import *im);
