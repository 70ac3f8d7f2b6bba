// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Images of registries that creates name (`image`). The first create of an image pulls it; the
 * others wait for the same pull, or find the template that it made. Clients cannot give such a
 * template's name ("python+" and a hash over the reference). It is counted and removed like a
 * package set (build/set.h).
 *
 * A digest means one image for ever. A tag may be moved: if its image was pulled longer ago than
 * IMAGE_FRESH_US, it is pulled again.
 */
#include "base/units.h"
#include "build/build.h"

#define IMAGE_FRESH_US (UINT64_C(3600) * SECOND_US)

struct template;

/* Who waits for a pull. Called once from the loop; err NULL: it is there, look again. */
struct image_wait {
	struct list link;
	void (*fn)(const struct err *err, void *arg);
	void *arg;
};
void image_wait_remove(struct image_wait *w); /* twice is fine */

/* 0: *ret is its template. 1: it is being pulled, and *w is called. check: as of an import. */
must_check int image_find(struct builds *bs, const char *project_id, const char *ref,
                          int (*check)(const json_t *manifest, struct err *err),
                          struct template **ret, struct image_wait *w, struct err *err);
