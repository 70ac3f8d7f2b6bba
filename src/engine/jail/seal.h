// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A seal: a sandbox's root becomes an image.
 *
 *	waiting --> packing --> finishing --> (told, freed)
 *
 *	waiting		its layer is set aside: on btrfs a snapshot, so that the sandbox may go on,
 *			change or end; on plain storage the layer itself, in which then nothing
 *			should be written
 *	packing		mkfs.erofs works on it in a jail of its own (seal_child.h)
 *	finishing	a child of ours hashes the image, brings it to disk and gives it its name
 *
 * Until the name, all there is of it is DATA/templates/SEAL and DATA/layers/SEAL, which the next
 * start removes. The same image sealed twice is one image.
 */
#include "base/list.h"
#include "engine/engine.h"
#include "engine/jail/guest.h"

struct seal;

/* As in struct engine. */
must_check int seal_start(const char *id, const struct digest *base, const struct seal_spec *spec,
                          seal_fn fn, void *arg, struct seal **ret, struct err *err);
void seal_cancel(struct seal *s);
void seal_sweep(void);   /* what an earlier broker left; before the first seal */
void seal_end_all(void); /* the broker stops: nobody is told */
