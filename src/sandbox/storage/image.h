// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Images, as the gateway knows them: digests at the broker. One is there because a template has it
 * (template.h) or because a build wants it again; whoever stops wanting it says so, and it goes
 * when the last sandbox on it has. All on the loop's thread.
 */
#include "base/digest.h"
#include "sandbox/model/sandbox.h"

struct image_seal; /* under way */

struct image_spec {
	bool is_tree;       /* the directory /template of the sandbox, not its root */
	bool is_small;      /* takes its time and becomes smaller */
	uint64_t epoch_s;   /* no file in it is younger; 0 = than now */
	uint64_t bytes_max; /* 0 = the most there may be */
	/* Told a few times a second what is made so far; arg as of done. Or NULL. */
	void (*progress)(uint64_t bytes, void *arg);
};
/* Called once: image and bytes, or err and no image. */
typedef void (*image_sealed_fn)(const struct digest *image, uint64_t bytes, const struct err *err,
                                void *arg);
/* {epoch_s, small}: how it was sealed, for a manifest. The same files sealed so are the same image
 * again. */
json_t *image_sealed_json(uint64_t epoch_s, bool is_small);
/*
 * Makes an image of the sandbox's files, running, paused or kept; it may end meanwhile. done comes
 * from the loop, never from inside this call. The image then is the caller's to give to a template
 * or to release. *ret is good until done.
 *
 * Of a jail's: those of a vm are on a disk, and come another way (build/transfer/vm_template.h).
 */
must_check int image_seal(struct sandbox *s, const struct image_spec *spec, image_sealed_fn done,
                          void *arg, struct image_seal **ret, struct err *err);
void image_seal_cancel(struct image_seal *seal);       /* done is called with an err, later */
uint64_t image_seal_bytes(const struct image_seal *s); /* made so far */

bool image_has(const struct fleet *fleet, const struct digest *image, uint64_t *ret_bytes);
/* Sandboxes that run on it or keep files over it. */
size_t image_count_users(const struct fleet *fleet, const struct digest *image);
/* Nobody wants it for anything but a template that may have it, or sandboxes that use it. */
void image_release(struct fleet *fleet, const struct digest *image);
/* Once, when the fleet is ready: removes the images of this store that neither a template nor
 * needs() claims. */
void image_settle(struct fleet *fleet, bool (*needs)(const struct digest *image, void *arg),
                  void *arg);
