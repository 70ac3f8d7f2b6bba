// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The part of an output that a model is shown: all of it if it is short, else its beginning and its
 * end, with a note about what was left out. Memory is bounded.
 */
#include "base/buf.h"

#include <stdbool.h>

#define EXCERPT_HALF (32 * 1024) /* bytes of each end */

struct excerpt {
	struct buf head, tail;
	uint64_t dropped; /* bytes between the two */
};

void excerpt_init(struct excerpt *e);
void excerpt_done(struct excerpt *e);
void excerpt_add(struct excerpt *e, const char *data, size_t len);
/* Counts bytes that were lost before they came here. */
void excerpt_skip(struct excerpt *e, uint64_t len);
/* Appends it; room for EXCERPT_MAX is enough. */
#define EXCERPT_MAX (2 * EXCERPT_HALF + 80)
must_check int excerpt_put(const struct excerpt *e, struct buf *out);
