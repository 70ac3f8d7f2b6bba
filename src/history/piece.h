// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A piece as bytes: a version, the number of figures, then readings in order. A reading is the
 * places that were passed over since the last, how many readings it was made of, and each figure as
 * its difference to the last reading's. All are numbers of as many bytes as they need, so a sandbox
 * that sleeps takes a byte a figure. Bytes that make no sense end the piece where they are.
 */
#include "base/buf.h"
#include "history/figure.h"

#include <stdbool.h>

#define PIECE_READINGS  60
#define PIECE_BYTES_MAX ((size_t)PIECE_READINGS * (HISTORY_FIGURES_MAX * 10 + 15) + 2)

struct reading {
	uint32_t at;                      /* its place in the span, from 0 */
	uint32_t n;                       /* of how many readings */
	uint64_t of[HISTORY_FIGURES_MAX]; /* 0 where the piece has no such figure */
};

/* Appends a reading; last is the one before, or NULL for the first. */
void piece_append(struct buf *b, size_t n_figures, const struct reading *last,
                  const struct reading *next);

struct piece_reader {
	const uint8_t *p, *end;
	size_t n_figures;
	bool has_last;
	struct reading last;
};
void piece_read(struct piece_reader *r, const void *data, size_t len);
bool piece_next(struct piece_reader *r, struct reading *ret);
