// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Images of registries that creates name (`image`). The first create of an image pulls it; the
 * others wait for the same pull, or find the template that it made. Clients cannot give such a
 * template's name ("python+" and a hash over the reference). It is counted and removed like a
 * package set (build/set.h).
 *
 * A digest means one image for ever. A tag may be moved: who asks says how long ago its image may
 * have been pulled, IMAGE_FRESH_US if nothing else is said.
 */
#include "base/units.h"
#include "build/build.h"
#include "build/transfer/import.h"

#define IMAGE_FRESH_US (UINT64_C(3600) * SECOND_US)

struct template;

/* Who waits for a pull. Called once from the loop; err NULL: it is there, look again. */
struct image_wait {
	struct list link;
	void (*fn)(const struct err *err, void *arg);
	/* As of an import; or NULL. */
	void (*on_progress)(enum import_phase phase, uint64_t bytes, uint64_t total, void *arg);
	void *arg;
};
void image_wait_remove(struct image_wait *w); /* twice is fine */

struct image_wish { /* borrowed for the call */
	const char *project_id;
	const char *ref, *field; /* the image, and what an error calls it */
	uint64_t oldest_us;      /* one that a tag named before this time is not taken */
};
/* 0: *ret is its template. 1: it is being pulled, and *w is called. */
must_check int image_find(struct builds *bs, const struct image_wish *wish, struct template **ret,
                          struct image_wait *w, struct err *err);
/* Whether it could be pulled, as far as its name and the settings tell. */
must_check int image_check(struct builds *bs, const struct image_wish *wish, struct err *err);
/* Its template if it was pulled, at whatever time; or NULL. */
const struct template *image_peek(struct builds *bs, const char *project_id, const char *ref);
