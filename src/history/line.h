// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What one owner has at one step: the piece of the present span, as it grows. The last reading
 * stays open until the next place begins, and takes up all that come meanwhile.
 */
#include "history/piece.h"

struct line {
	uint64_t span;
	bool is_used; /* span is set */
	bool is_dirty;
	bool has_last;
	struct buf done;        /* the readings before the open one */
	struct reading last;    /* of those */
	struct reading open;    /* n 0: none. A mean is a sum here */
	size_t stored, writing; /* bytes that its row has, and would have */
};

void line_init(struct line *l);
void line_done(struct line *l);
/* Begins a span. Of the bytes that its row has, if any, readings up to this place are taken over:
 * those behind it are of a clock that was set back since. */
void line_begin(struct line *l, enum history_scope scope, uint64_t span, const struct buf *row,
                uint32_t at);
void line_add(struct line *l, enum history_scope scope, uint32_t at,
              const uint64_t of[HISTORY_FIGURES_MAX]);
/* The piece as it is now; nothing if it has no reading. */
void line_bytes(const struct line *l, enum history_scope scope, struct buf *ret);
