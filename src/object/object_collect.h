// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which objects nobody needs. Pure: no clock, no I/O.
 *
 * Who collects reads the rows and their manifests first: an object is needed if a manifest that a
 * row names has it. What is not needed may be of an upload that has written no row yet. So it is
 * kept for GRACE behind its last write, counted to when the rows were read. An upload that finds a
 * chunk there already must write it once more if it is older than FRESH: else a chunk that is about
 * to be collected would be counted on. An upload ends, or fails, within its own time.
 *
 *	|-- fresh --|-- write it again --|            collected
 *	0         FRESH                GRACE - UPLOAD … GRACE
 */
#include "base/digest.h"

#define OBJECT_HOUR_US  UINT64_C(3600000000)
#define OBJECT_GRACE_US (24 * OBJECT_HOUR_US)
#define OBJECT_UPLOAD_US                                                                           \
	(6 * OBJECT_HOUR_US)           /* the most from an upload's first chunk to its row         \
	                                */
#define OBJECT_SKEW_US  OBJECT_HOUR_US /* between the store's clock and ours */
#define OBJECT_FRESH_US (OBJECT_GRACE_US - OBJECT_UPLOAD_US - OBJECT_SKEW_US)

struct object_row { /* of a listing */
	struct digest name;
	uint64_t written_us; /* by the store's clock */
	uint64_t bytes;
};

/* Whether an upload may count on an object that is there. */
bool object_is_fresh(uint64_t written_us, uint64_t now_us);

/*
 * The names of what is needed, in a filter of 10 bits for each: it never says that a needed one is
 * not, and of a hundred others it takes one for needed. Another seed takes another one, so what was
 * kept by mistake goes the next time. With 32 MiB at most it holds what 100 TiB have; with more it
 * is mistaken more often, and always to the same side.
 */
struct object_filter;

struct object_filter *object_filter_new(size_t n_names, uint64_t seed);
void object_filter_free(struct object_filter *n); /* NULL is fine */
void object_filter_add(struct object_filter *n, const struct digest *name);
bool object_filter_has(const struct object_filter *n, const struct digest *name);

/* Moves the rows that may be removed to the front, and returns their number. read_us: when the rows
 * of the database were begun to be read, by our clock. */
size_t object_collect(struct object_row *rows, size_t n, const struct object_filter *needed,
                      uint64_t read_us);
