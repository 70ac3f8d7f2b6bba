// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Copies a build's parcels (build/parcel.h) into the sandbox of its step. */
#include "build/build.h"

struct fill;
typedef void (*fill_done_fn)(struct build *b, const struct err *err); /* err NULL: they are in */

bool fill_is_due(const struct build *b);
/* done may be called before this returns; b->fill is set meanwhile. */
void fill_begin(struct build *b, fill_done_fn done);
void fill_cancel(struct fill **f); /* of NULL too; done is not called */
