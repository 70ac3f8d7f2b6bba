// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the files of an import share: import.c moves it from phase to phase, import_image.c makes
 * an image of what it has unpacked. */
#include "build/build_private.h"
#include "build/transfer/import.h"
#include "build/transfer/import_base.h"

struct import {
	struct list link;
	struct builds *owner;
	enum import_phase phase;
	char project_id[ID_SIZE], sandbox_id[ID_SIZE];
	char *name, *ref;
	bool is_shared, is_replacing, is_small, is_set;
	bool is_queued; /* it has no room yet, and no sandbox */
	bool is_bare;   /* it is a root, and the manifest is known */
	bool is_whole;  /* its stream has ended */
	bool is_left;
	bool is_over; /* its sandbox has the image of base */
	const struct import_ops *ops;
	void *arg;
	struct pull *pull;        /* the image is fetched; or NULL: it comes as a stream */
	struct pull_fetch *fetch; /* while that is under way */
	char *digest;             /* what the registry calls it */
	struct import_base base;
	struct file_call *call;
	struct buf told;
	uint64_t bytes, total;
	json_t *manifest;
	struct image_seal *seal;
	struct digest image; /* zero until there is one */
	struct err error;    /* why it failed; code ERR_NONE: it has not */
};

/* import.c */
/* Its end: deletes its sandbox, and then reports. err NULL: no failure so far. */
void import_end(struct import *im, const struct err *err);
void import_tell(struct import *im);                     /* its progress */
struct sandbox *import_sandbox(const struct import *im); /* or NULL */

/* import_image.c */
/* All is unpacked, and the sandbox has reported it. import_end() follows. */
void import_make_image(struct import *im);
/* Notes the image in its manifest: if that is given to another image, what it says about layers is
 * not believed. */
void import_note_image(struct import *im);
