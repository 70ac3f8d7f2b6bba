// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The build of an image from a sandbox's root: the image is sealed.
 *
 *	waiting --> packing --> finishing --> (told, freed)
 *
 *	waiting		its layer is set aside: on btrfs a snapshot, so that the sandbox may go on,
 *			change or end; on plain storage the layer itself, in which then nothing
 *			should be written
 *	packing		mkfs.erofs works on it in a jail of its own (image_build_child.h)
 *	finishing	a child of ours hashes the image, brings it to disk and gives it its name
 *
 * Before it has its name, it exists only as DATA/templates/SEAL and DATA/layers/SEAL, which the
 * next start removes. The same image built twice is one image.
 */
#include "base/list.h"
#include "engine/engine.h"
#include "engine/guest/guest.h"

struct image_build;

/* As in struct engine. */
must_check int image_build_start(struct guest_host *host, const char *id, const struct digest *base,
                                 const struct image_build_spec *spec, image_build_fn fn, void *arg,
                                 struct image_build **ret, struct err *err);
/* Whether one is under way over that image. */
bool image_build_needs(const struct digest *image);
void image_build_cancel(struct image_build *s);
void image_build_sweep(
	struct guest_host *host); /* what an earlier broker left; before the first build */
void image_build_end_all(struct guest_host *host); /* the broker stops: nobody is told */
