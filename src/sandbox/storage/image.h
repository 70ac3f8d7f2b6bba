// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Images, as the gateway knows them: digests at the broker. An image exists because a template has
 * it (template.h) or a build may use it again. When that ends, image_release() is called, and the
 * image is removed after the last sandbox on it. All of this is on the loop's thread.
 */
#include "base/digest.h"
#include "sandbox/model/sandbox.h"

struct image_seal; /* under way */

struct image_spec {
	bool is_tree;  /* the directory /template of the sandbox, not its root */
	bool is_over;  /* the image shown there, with what was changed (is_writable of its spec) */
	bool is_small; /* slower to make, but smaller */
	bool is_whole; /* with temporary files and caches: a later step may want them */
	uint64_t epoch_s;   /* no file in it is newer; 0 = now */
	uint64_t bytes_max; /* 0 = the most there may be */
	/* Called a few times a second with the bytes made so far; arg is that of done. May be
	 * NULL. */
	void (*progress)(uint64_t bytes, void *arg);
};
/* Called once: image and bytes, or err and no image. */
typedef void (*image_sealed_fn)(const struct digest *image, uint64_t bytes, const struct err *err,
                                void *arg);
/* {epoch_s, small}: how it was sealed, for a manifest. The same files sealed in this way give the
 * same image. */
json_t *image_sealed_json(uint64_t epoch_s, bool is_small);
/*
 * Makes an image of the files of a running, paused or kept sandbox, which may end meanwhile. done
 * is called from the loop, never from inside this call. The caller then gives the image to a
 * template or releases it. *ret is valid until done.
 *
 * Only for jails: a vm's files are in a disk image, and are read in another way
 * (build/transfer/vm_template.h).
 */
must_check int image_seal(struct sandbox *s, const struct image_spec *spec, image_sealed_fn done,
                          void *arg, struct image_seal **ret, struct err *err);
void image_seal_cancel(struct image_seal *seal);       /* done is called with an err, later */
uint64_t image_seal_bytes(const struct image_seal *s); /* made so far */

bool image_has(const struct fleet *fleet, const struct digest *image, uint64_t *ret_bytes);
/* Whether base is that image, or one of its bases. */
bool image_needs(const struct fleet *fleet, const struct digest *image, const struct digest *base);
/* The bytes of the images that it needs too (its bases). */
uint64_t image_count_shared(const struct fleet *fleet, const struct digest *image);
/* Its own bytes, with those of the bases that are not free. A base stays on disk as long as an
 * image needs it, even if its own template is removed. */
uint64_t image_count_charged(const struct fleet *fleet, const struct digest *image,
                             bool (*is_free)(const struct digest *base, const void *arg),
                             const void *arg);
/* Sandboxes that run on it or keep files over it. */
size_t image_count_users(const struct fleet *fleet, const struct digest *image);
/* The caller no longer needs it; it stays only for a template that has it or sandboxes that use
 * it. */
void image_release(struct fleet *fleet, const struct digest *image);
/* Called once, when the fleet is ready: removes the images of this store that neither a template
 * nor needs() claims. */
void image_settle(struct fleet *fleet, bool (*needs)(const struct digest *image, void *arg),
                  void *arg);
