// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Brings an image and those that it needs to the store of objects: for each the broker hands out
 * file and seal, and the member stores it. What is stored already is found there, and costs no
 * transfer.
 *
 * A call to the member cannot be cancelled. So a send that is dropped stays until the answer comes.
 */
#include "node/shared_images.h"

struct fleet;
struct image_send;

/* image: with all parts, the last one its own. err: of the broker, or of the store. Once. */
typedef void (*image_sent_fn)(const struct node_image *image, const struct err *err, void *arg);

/* project_id "": for all projects. Never fails at once: fn is called from the loop. */
struct image_send *image_send_begin(struct fleet *fleet, const char *project_id,
                                    const struct digest *image, image_sent_fn fn, void *arg);
void image_send_drop(struct image_send *send); /* fn is not called */
